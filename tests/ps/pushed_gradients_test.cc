#include "ps/pushed_gradients.h"

#include <limits>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using Summation = PushedGradients::Summation;

// The gradients of three workers in arenas of 16 elements. All elements of a push have the same value.
class PushedGradientsTest : public ::testing::Test {
 protected:
  // Returns the number of arenas.
  size_t Make(Summation summation) {
    gradients_.emplace(3, summation);
    for (Arena* arena : gradients_->arenas()) *arena = Arena(16);
    return gradients_->arenas().size();
  }
  bool Push(int worker, float value, Range local = {0, 16}) {
    const std::vector<float> values(local.count, value);
    return gradients_->Take(worker, true, local,
                            {{reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}});
  }
  bool PushNothing(int worker, Range local = {0, 16}) { return gradients_->Take(worker, false, local, {}); }
  float Sum(int64_t element = 0) const { return gradients_->sums()[element]; }

  absl::optional<PushedGradients> gradients_;
};

TEST_F(PushedGradientsTest, NumberOfArenasDependsOnTheSummation) {
  EXPECT_EQ(Make(Summation::kByArrival), 1);  // One arena for the sum.
  EXPECT_EQ(Make(Summation::kByRank), 3);     // One arena for the sum, two for waiting pushes.
  EXPECT_EQ(Make(Summation::kWhole), 3);      // One arena for each of three pushes.
}

TEST_F(PushedGradientsTest, OrderedSumIsInRankOrderWhateverArrivesFirst) {
  // (1 + 1e8) - 1e8 is 0 in float32, 1 + (1e8 - 1e8) is 1.
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, std::vector{2, 1, 0}, std::vector{1, 2, 0}}) {
    Make(Summation::kByRank);
    for (const int worker : order) Push(worker, worker == 0 ? 1 : worker == 1 ? 1e8f : -1e8f);
    ASSERT_TRUE(gradients_->AddUp({0, 16}));
    EXPECT_EQ(Sum(), 0);
  }
}

TEST_F(PushedGradientsTest, SumByArrivalStartsAgainFromZeroForClearedElements) {
  Make(Summation::kByArrival);
  for (int worker = 0; worker < 3; ++worker) Push(worker, 2);
  ASSERT_TRUE(gradients_->AddUp({0, 16}));
  EXPECT_EQ(Sum(), 6);
  gradients_->Clear({0, 8});
  Push(0, 5);
  EXPECT_EQ(Sum(0), 5);
  EXPECT_EQ(Sum(8), 11);
}

TEST_F(PushedGradientsTest, PushWithoutSamplesAddsNothing) {
  Make(Summation::kByRank);
  for (int worker = 0; worker < 3; ++worker) Push(worker, 4);
  ASSERT_TRUE(gradients_->AddUp({0, 16}));
  PushNothing(0);
  Push(1, 3);
  PushNothing(2);  // The values of worker 2's previous push are still in memory.
  ASSERT_TRUE(gradients_->AddUp({0, 16}));
  EXPECT_EQ(Sum(), 3);
}

TEST_F(PushedGradientsTest, NonFiniteValuesAndSumsAreFound) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  Make(Summation::kByRank);
  EXPECT_FALSE(Push(1, std::numeric_limits<float>::quiet_NaN()));
  Push(0, kLargest);
  Push(1, kLargest);
  PushNothing(2);
  EXPECT_FALSE(gradients_->AddUp({0, 16}));
  Make(Summation::kByArrival);
  Push(0, kLargest);
  EXPECT_FALSE(Push(1, kLargest));
}

TEST_F(PushedGradientsTest, WholePushesAreAddedInTheGivenOrderOfWorkers) {
  Make(Summation::kWhole);
  Push(0, 1);
  PushNothing(1);
  Push(2, 4);
  int failed = -1;
  const float* const sums = gradients_->AddTogether({2, 1, 0}, failed);
  ASSERT_NE(sums, nullptr);
  EXPECT_EQ(sums[15], 5);
  Push(0, std::numeric_limits<float>::max());
  Push(2, std::numeric_limits<float>::max());
  EXPECT_EQ(gradients_->AddTogether({2, 0}, failed), nullptr);
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace tethys
