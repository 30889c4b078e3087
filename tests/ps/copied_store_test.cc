// Tests that a store whose shards have a copy sends the last answers of a step only once the copy has the
// step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ps/parameter_store_fixture.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CopiedStoreTest : public ParameterStoreTest {
 protected:
  void SetUp() override {
    copied_ = keeps_undo_ = true;
    MakeBulk(2);
  }
  std::string Part(int worker, uint64_t step, Range part, uint32_t generation = 7, uint64_t sequence = 0) {
    return Do(Push{.worker = worker,
                   .gradient = 1,
                   .step = step,
                   .sequence = sequence == 0 ? step + 1 : sequence,
                   .base = step,
                   .part = part,
                   .generation = generation});
  }
  std::string Copied(int64_t version) {
    actions_ = Taken();
    store_->OnCopied(version, actions_);
    return Words(absl::OkStatus());
  }
};

TEST_F(CopiedStoreTest, LastAnswersOfAStepWaitForTheCopy) {
  EXPECT_EQ(Part(0, 0, {0, 8}), "wait");
  EXPECT_EQ(Part(1, 0, {0, 8}), "w0 v1 [0,8), w1 v1 [0,8)");
  EXPECT_THAT(actions_.copied, ElementsAre("[0,8) v1"));
  EXPECT_EQ(Part(0, 0, {8, 11}), "wait");
  EXPECT_EQ(Part(1, 0, {8, 11}), "wait") << "the step is applied, but the copy lacks it";
  EXPECT_THAT(actions_.copied, ElementsAre("[8,19) v1"));
  EXPECT_EQ(actions_.applied.size(), 2u);
  EXPECT_EQ(store_->version(), 1);
  EXPECT_EQ(Copied(0), "wait") << "the copy of another version";
  EXPECT_EQ(Copied(1), "w0 v1 [8,19), w1 v1 [8,19)");
  EXPECT_EQ(Copied(1), "wait");
  EXPECT_EQ(Part(0, 1, {0, 19}), "wait");
  EXPECT_EQ(Part(1, 1, {0, 19}), "wait");
  EXPECT_EQ(Copied(2), "w0 v2, w1 v2");
}

TEST_F(CopiedStoreTest, PartThatIsRepeatedBeforeTheCopyIsMade_IsAnsweredOnlyIfItWasAnswered) {
  for (const int worker : {0, 1}) Part(worker, 0, {0, 8});
  for (const int worker : {0, 1}) Part(worker, 0, {8, 11});
  EXPECT_EQ(Part(0, 0, {0, 8}), "w0 v1 [0,8)");
  EXPECT_EQ(Part(0, 0, {8, 11}), "wait");
  EXPECT_EQ(Copied(1), "w0 v1 [8,19), w1 v1 [8,19)");
  EXPECT_EQ(Part(0, 0, {8, 11}), "w0 v1 [8,19)");
}

TEST_F(CopiedStoreTest, StepWithoutACopyIsTakenBackWithTheGroup) {
  for (const int worker : {0, 1}) Part(worker, 0, {0, 19});
  EXPECT_EQ(StatusText(store_->StepBack(0, 8, {0, 1})), "OK");
  EXPECT_EQ(Copied(1), "wait") << "the group was halted";
  EXPECT_EQ(Parameter(), 0);
  for (const int worker : {0, 1}) EXPECT_EQ(Part(worker, 0, {0, 19}, 8), "wait");
  EXPECT_EQ(Copied(1), "w0 v1, w1 v1");
}

TEST_F(CopiedStoreTest, SecondWorkerCommitsItsNormWhileTheCopyIsMade) {
  clip_norm_ = 100;
  MakeBulk(2);
  for (const int worker : {0, 1}) Part(worker, 0, {0, 19});
  const auto exchange = [&](int worker, FrameKind kind, const std::vector<double>& sums) {
    Frame frame = ToFrame({.worker = worker});
    frame.kind = kind;
    frame.dtype = FrameDType::kFloat64;
    frame.range_count = 1;
    frame.payload_bytes = sums.size() * sizeof(double);
    actions_ = Taken();
    return Words(store_->OnExchange(
        frame, {absl::string_view(reinterpret_cast<const char*>(sums.data()), frame.payload_bytes)},
        actions_));
  };
  EXPECT_THAT(exchange(0, FrameKind::kNorm, {}), HasSubstr("w0 norm"));
  EXPECT_THAT(exchange(0, FrameKind::kCommit, {99}), HasSubstr("w0 committed"));
  EXPECT_THAT(actions_.replies, IsEmpty());
  EXPECT_THAT(exchange(1, FrameKind::kNorm, {}), HasSubstr("w1 norm"));
  EXPECT_THAT(exchange(1, FrameKind::kCommit, {99}), HasSubstr("w1 committed"));
  EXPECT_THAT(exchange(0, FrameKind::kCommit, {99}), HasSubstr("w0 committed")) << "a repeat";
  EXPECT_EQ(Copied(1), "w0 v1, w1 v1");
  EXPECT_THAT(exchange(1, FrameKind::kCommit, {99}), HasSubstr("w1 committed"));
}

}  // namespace
}  // namespace tethys
