#include "runtime/tensor/variable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/tensor/arena.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

class VariableSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Add("dense_1/weights", {50, 30}, InitialValue::kHeNormal);
    Add("dense_1/bias", {30}, InitialValue::kZeros);
    Add("dense_2/weights", {30, 7}, InitialValue::kGlorotUniform);
  }
  void Add(const std::string& name, const Shape& shape, InitialValue initial_value) {
    const absl::Status status = set_.Add(name, shape, "in,out", initial_value, shape.front(), shape.back());
    ASSERT_TRUE(status.ok()) << status;
  }
  // Initial values of the arena's elements in `range`.
  std::vector<float> Values(uint64_t seed, Range range) const {
    std::vector<float> values(range.count, -1.0f);
    set_.FillInitialValues(seed, range, values.data());
    return values;
  }
  std::vector<float> AllValues(uint64_t seed) const { return Values(seed, {0, set_.arena_size()}); }

  VariableSet set_;
};

TEST_F(VariableSetTest, RangesOfVariablesAreAlignedAndPaddingIsNotCountedAsElements) {
  EXPECT_EQ(set_.Find("dense_1/weights")->range, (Range{0, 1500}));
  EXPECT_EQ(set_.Find("dense_1/bias")->range, (Range{1504, 30}));
  EXPECT_EQ(set_.Find("dense_2/weights")->range, (Range{1536, 210}));
  EXPECT_EQ(set_.arena_size(), 1760);
  EXPECT_EQ(set_.element_count(), 1740);
  EXPECT_EQ(set_.Find("dense_3/bias"), nullptr);
}

TEST_F(VariableSetTest, RefusesInvalidNamesAndShapes) {
  const auto add = [this](const std::string& name, const Shape& shape) {
    return std::string(set_.Add(name, shape, "in,out", InitialValue::kZeros, 1, 1).message());
  };
  EXPECT_THAT(add("", {1}), HasSubstr("needs a name"));
  EXPECT_THAT(add("dense_1/bias", {1}), HasSubstr("two variables are called 'dense_1/bias'"));
  EXPECT_THAT(add("a", {3, 0}), HasSubstr("'a' of shape [3, 0] has no elements"));
  EXPECT_THAT(add("a", {3, -1}), HasSubstr("[3, -1] has a negative axis"));
  EXPECT_THAT(add("a", {int64_t{1} << 40, int64_t{1} << 40}), HasSubstr("too many elements"));
  EXPECT_EQ(set_.variables().size(), 3);
}

TEST_F(VariableSetTest, SignatureCoversNamesShapesLayoutsAndOrder) {
  const auto signature = [](const std::string& a, const Shape& shape, const std::string& layout,
                            const std::string& b) {
    VariableSet set;
    EXPECT_TRUE(set.Add(a, shape, layout, InitialValue::kZeros, 1, 1).ok());
    EXPECT_TRUE(set.Add(b, {4}, "out", InitialValue::kZeros, 1, 1).ok());
    return set.signature();
  };
  const uint64_t signed_as = signature("a", {2, 3}, "in,out", "b");
  EXPECT_EQ(signature("a", {2, 3}, "in,out", "b"), signed_as);
  EXPECT_NE(signature("c", {2, 3}, "in,out", "b"), signed_as);
  EXPECT_NE(signature("a", {3, 2}, "in,out", "b"), signed_as);
  EXPECT_NE(signature("a", {2, 3}, "out,in", "b"), signed_as);
  EXPECT_NE(signature("b", {2, 3}, "in,out", "a"), signed_as);
}

TEST_F(VariableSetTest, InitialValuesAreTheSameForAnySplitOfTheArena) {
  const std::vector<float> whole = AllValues(3);
  for (const int64_t piece : {1, 7, 333, 1600}) {
    for (int64_t begin = 0; begin < set_.arena_size(); begin += piece) {
      const int64_t count = std::min(piece, set_.arena_size() - begin);
      const std::vector<float> expected(whole.begin() + begin, whole.begin() + begin + count);
      ASSERT_EQ(Values(3, {begin, count}), expected) << "[" << begin << ", " << begin + count << ")";
    }
  }
}

TEST_F(VariableSetTest, InitialValuesDependOnTheSeed) { EXPECT_NE(AllValues(3), AllValues(4)); }

TEST_F(VariableSetTest, PaddingAndBiasesStartAtZero) {
  const std::vector<float> values = AllValues(3);
  for (int64_t i = 1500; i < 1536; ++i) EXPECT_EQ(values[i], 0.0f) << i;
  for (int64_t i = 1746; i < 1760; ++i) EXPECT_EQ(values[i], 0.0f) << i;
}

TEST_F(VariableSetTest, GlorotInitialValuesFillTheIntervalOfTheFormula) {
  const float limit = std::sqrt(6.0f / 37.0f);
  const std::vector<float> values = Values(3, set_.Find("dense_2/weights")->range);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -limit);
  EXPECT_LE(*most, limit);
  EXPECT_LT(*least, -0.9f * limit);
  EXPECT_GT(*most, 0.9f * limit);
}

TEST_F(VariableSetTest, HeInitialValuesHaveTheirMeanAndDeviation) {
  double sum = 0, sum_of_squares = 0;
  for (const float value : Values(3, {0, 1500})) {
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    sum_of_squares += value * value;
  }
  const double deviation = std::sqrt(2.0 / 50);
  EXPECT_NEAR(sum / 1500, 0, 4 * deviation / std::sqrt(1500));
  EXPECT_NEAR(std::sqrt(sum_of_squares / 1500), deviation, 4 * deviation / std::sqrt(2 * 1500));
}

TEST(InitialValues, BilinearFiltersEnlargeEachChannelByInterpolation) {
  VariableSet set;
  ASSERT_TRUE(set.Add("up/filters", {2, 4, 4, 2}, kBilinearLayout, InitialValue::kBilinear, 32, 32).ok());
  std::vector<float> values(64);
  set.FillInitialValues(1, {0, 64}, values.data());
  // The weights of Long et al. 2015 for enlargement by a factor of 2.
  const float weights[] = {0.25f, 0.75f, 0.75f, 0.25f};
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t in = i / 32, y = i / 8 % 4, x = i / 2 % 4, out = i % 2;
    EXPECT_FLOAT_EQ(values[i], in == out ? weights[y] * weights[x] : 0) << i;
  }
  std::vector<float> part(7);
  set.FillInitialValues(1, {20, 7}, part.data());
  EXPECT_EQ(part, std::vector<float>(values.begin() + 20, values.begin() + 27));

  VariableSet odd;
  ASSERT_TRUE(odd.Add("up/filters", {1, 3, 3, 1}, kBilinearLayout, InitialValue::kBilinear, 9, 9).ok());
  std::vector<float> small(9);
  odd.FillInitialValues(1, {0, 9}, small.data());
  EXPECT_THAT(small, ::testing::ElementsAre(0.25f, 0.5f, 0.25f, 0.5f, 1, 0.5f, 0.25f, 0.5f, 0.25f));
}

TEST(ShapeTest, ShapeCountsItsElements) {
  EXPECT_EQ(*ElementCount({}), 1);
  EXPECT_EQ(*ElementCount({2, 3, 4}), 24);
  EXPECT_EQ(*ElementCount({2, 0, 4}), 0);
  EXPECT_EQ(*ElementCount({int64_t{1} << 62}), int64_t{1} << 62);
  EXPECT_FALSE(ElementCount({int64_t{1} << 62, 2}).ok());
  EXPECT_FALSE(ElementCount({-1}).ok());
  EXPECT_EQ(ShapeText({784, 128}), "[784, 128]");
}

TEST(ArenaTest, NewArenaIsZeroedAndAligned) {
  Arena arena(33);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 64, 0);
  EXPECT_THAT(arena.span(), ::testing::Each(0.0f));
  arena.Slice({30, 3})[2] = 5.0f;
  EXPECT_EQ(arena.data()[32], 5.0f);
  EXPECT_EQ(Arena(0).size(), 0);
}

TEST(RangeTest, RangesWithOnlyPaddingBetweenThemAreJoined) {
  EXPECT_EQ(JoinedRanges({}), std::vector<Range>());
  EXPECT_EQ(JoinedRanges({{64, 8}, {32, 20}, {0, 10}}), (std::vector<Range>{{0, 10}, {32, 40}}));
  EXPECT_EQ(JoinedRanges({{32, 16}, {16, 3}, {0, 16}}), (std::vector<Range>{{0, 48}}));
}

}  // namespace
}  // namespace tethys
