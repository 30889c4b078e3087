// Tests that a parameter store can return to an earlier version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "tests/ps/parameter_store_fixture.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

class StepBackTest : public ParameterStoreTest {
 protected:
  void SetUp() override {
    optimizer_.mutable_sgd()->set_momentum(0.9);
    keeps_undo_ = true;
  }
  // Both workers push all gradients of `step` under `generation`, whose first step was `first`.
  void MakeStep(uint64_t step, uint32_t generation = 7, uint64_t first = 0) {
    for (const int worker : {0, 1}) Do(PushOf(worker, step, {0, 19}, generation, first));
  }
  static Push PushOf(int worker, uint64_t step, Range part, uint32_t generation = 7, uint64_t first = 0) {
    return {.worker = worker,
            .gradient = static_cast<float>(10 * step) + static_cast<float>(worker) + 0.3f,
            .samples = 3,
            .step = step,
            .sequence = step - first + 1,
            .base = step,
            .part = part,
            .generation = generation};
  }
  std::string StepBack(int64_t version, uint32_t generation = 8, const std::vector<int>& workers = {0, 1}) {
    return StatusText(store_->StepBack(version, generation, workers));
  }
  // The bit patterns of all parameters and slots.
  std::vector<uint32_t> State() {
    std::vector<uint32_t> bits;
    const absl::Status read = store_->ForEachShard([&](int, int64_t, absl::Span<float> values) {
      const size_t before = bits.size();
      bits.resize(before + values.size());
      std::memcpy(bits.data() + before, values.data(), values.size() * sizeof(float));
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return bits;
  }
  // Both workers push step 0, and the store measures its variables. With `commit`, worker 0 then commits the
  // step.
  void MakeMeasuredStep(uint32_t generation, bool commit) {
    MakeStep(0, generation);
    EXPECT_THAT(Exchange(FrameKind::kMeasure, generation, {}), HasSubstr("w0 measured"));
    if (commit) {
      EXPECT_THAT(Exchange(FrameKind::kCommit, generation, {9, 9e4, 9, 9e4}), HasSubstr("w0 v1, w1 v1"));
    }
  }
  std::string Exchange(FrameKind kind, uint32_t generation, const std::vector<double>& sums) {
    Frame frame = ToFrame(PushOf(0, 0, {0, 19}, generation));
    frame.kind = kind;
    frame.dtype = FrameDType::kFloat64;
    frame.range_count = measures_ ? 4 : 1;
    frame.payload_bytes = sums.size() * sizeof(double);
    const absl::string_view payload(reinterpret_cast<const char*>(sums.data()), frame.payload_bytes);
    actions_ = Taken();
    return Words(store_->OnExchange(frame, {payload}, actions_));
  }
};

TEST_F(StepBackTest, PartlyAppliedStepIsTakenBackAndMadeAgain) {
  for (const auto summation : {proto::BulkSynchronous::ORDERED, proto::BulkSynchronous::ARRIVAL}) {
    MakeBulk(2, summation);
    MakeStep(0);
    const std::vector<uint32_t> before = State();
    MakeStep(1);
    const std::vector<uint32_t> after = State();

    MakeBulk(2, summation);
    MakeStep(0);
    Do(PushOf(0, 1, {0, 8}));
    EXPECT_EQ(Do(PushOf(1, 1, {0, 8})), "w0 v2 [0,8), w1 v2 [0,8)");
    Do(PushOf(0, 1, {8, 11}));
    EXPECT_FALSE(store_->ForEachShard([](int, int64_t, absl::Span<float>) { return absl::OkStatus(); }).ok());
    EXPECT_EQ(StepBack(1), "OK");
    EXPECT_EQ(store_->version(), 1);
    EXPECT_EQ(State(), before);
    MakeStep(1, 8, 1);
    EXPECT_EQ(store_->version(), 2);
    EXPECT_EQ(State(), after);
    EXPECT_EQ(store_->staleness_histogram().at(0), 2);
  }
}

TEST_F(StepBackTest, LastStepIsTakenBackAndMadeAgain) {
  MakeBulk(2);
  MakeStep(0);
  const std::vector<uint32_t> before = State();
  MakeStep(1);
  const std::vector<uint32_t> after = State();
  Do(PushOf(0, 2, {0, 8}));  // Worker 1 has not pushed, so nothing is updated.
  EXPECT_EQ(StepBack(1), "OK");
  EXPECT_EQ(State(), before);
  MakeStep(1, 8, 1);
  EXPECT_EQ(State(), after);
  EXPECT_EQ(store_->staleness_histogram().at(0), 2);
}

TEST_F(StepBackTest, StepBackToTheCurrentVersionKeepsTheState) {
  MakeBulk(2);
  MakeStep(0);
  const std::vector<uint32_t> state = State();
  Do(PushOf(0, 1, {0, 8}));
  EXPECT_EQ(StepBack(1), "OK");
  EXPECT_EQ(State(), state);
  EXPECT_EQ(StepBack(0, 9), "OK");
}

TEST_F(StepBackTest, StepBackDropsAnUncommittedStepAndItsGradientSums) {
  clip_norm_ = 0.5;
  for (const auto summation : {proto::BulkSynchronous::ORDERED, proto::BulkSynchronous::ARRIVAL}) {
    MakeBulk(2, summation);
    MakeStep(0);
    EXPECT_EQ(StepBack(0), "OK");
    EXPECT_EQ(State(), std::vector<uint32_t>(2 * 11));
    EXPECT_EQ(Do(PushOf(0, 0, {0, 19}, 8)), "wait");
    EXPECT_THAT(Exchange(FrameKind::kCommit, 8, {1e6}), HasSubstr("refused"));
  }
}

TEST_F(StepBackTest, StepBackRestoresSlotsThatMeasuringGradientsChanged) {
  measures_ = true;
  for (const bool committed : {false, true}) {
    MakeBulk(2);
    const std::vector<uint32_t> before = State();
    MakeMeasuredStep(7, committed);
    EXPECT_EQ(StepBack(0), "OK");
    EXPECT_EQ(State(), before);
    MakeMeasuredStep(8, true);
    const std::vector<uint32_t> again = State();
    MakeBulk(2);
    MakeMeasuredStep(7, true);
    EXPECT_EQ(State(), again);
  }
}

TEST_F(StepBackTest, StepBackOverTwoUpdatesOrToALaterVersionIsRefused) {
  MakeBulk(2);
  MakeStep(0);
  MakeStep(1);
  EXPECT_THAT(StepBack(0), HasSubstr("server 2 cannot step back from version 2 to version 0"));
  EXPECT_THAT(StepBack(3), HasSubstr("to version 3"));
  for (const int worker : {0, 1}) Do(PushOf(worker, 2, {0, 8}));
  EXPECT_THAT(StepBack(1), HasSubstr("to version 1"));  // The update to version 3 has begun.
  EXPECT_EQ(StepBack(2), "OK");
  EXPECT_THAT(StepBack(1, 9), HasSubstr("to version 1"));
}

TEST_F(StepBackTest, NoStepCanBeTakenBackAfterSetVersion) {
  MakeBulk(2);
  MakeStep(0);
  ASSERT_TRUE(store_->SetVersion(1).ok());
  EXPECT_THAT(StepBack(0), HasSubstr("to version 0"));
}

TEST_F(StepBackTest, FramesOfTheEarlierGenerationAreRefused) {
  MakeBulk(2);
  MakeStep(0);
  EXPECT_THAT(StepBack(0, 7), HasSubstr("its generation is 7"));
  EXPECT_EQ(StepBack(0), "OK");
  EXPECT_THAT(Do(PushOf(0, 0, {0, 19})),
              HasSubstr("the worker's generation is 7, but the generation of the job is 8"));
}

TEST_F(StepBackTest, NumberOfWorkersMayShrinkAndThenGrowAtAStepBack) {
  for (const auto summation : {proto::BulkSynchronous::ARRIVAL, proto::BulkSynchronous::ORDERED}) {
    MakeBulk(2, summation);
    MakeStep(0);
    Do(PushOf(1, 1, {0, 19}));  // Worker 0 is lost before it has pushed.
    EXPECT_EQ(StepBack(1, 8, {1}), "OK");
    EXPECT_THAT(Do(PushOf(0, 1, {0, 19}, 8, 1)), HasSubstr("w0 v2"));
    EXPECT_EQ(actions_.applied.back().worker(), 1) << "records name the worker by its index";
    EXPECT_THAT(Do(PushOf(0, 9, {0, 19}, 8, 1)), HasSubstr("server 2 refuses worker 1, step 9"));
    EXPECT_THAT(Do(PushOf(1, 2, {0, 19}, 8, 1)), HasSubstr("the job has 1 workers"));
    EXPECT_EQ(StepBack(2, 9), "OK");
    MakeStep(2, 9, 2);
    const std::vector<uint32_t> state = State();
    // For comparison, makes the same updates without the push of step 1 that the loss made void.
    MakeBulk(2, summation);
    MakeStep(0);
    EXPECT_EQ(StepBack(1, 8, {1}), "OK");
    Do(PushOf(0, 1, {0, 19}, 8, 1));
    EXPECT_EQ(StepBack(2, 9), "OK");
    MakeStep(2, 9, 2);
    EXPECT_EQ(State(), state);
    EXPECT_THAT(StepBack(3, 10, {0, 1, 2}), HasSubstr("the job has from 1 to 2"));
    EXPECT_THAT(StepBack(3, 10, {}), HasSubstr("is told to serve 0 workers"));
  }
}

TEST_F(StepBackTest, StoreThatKeepsNoUndoValuesRefusesToStepBack) {
  MakeAsynchronous(2);
  EXPECT_THAT(StepBack(0), HasSubstr("it keeps no copy of the earlier state"));
  keeps_undo_ = false;
  MakeBulk(2);
  EXPECT_THAT(StepBack(0), HasSubstr("it keeps no copy of the earlier state"));
}

TEST_F(StepBackTest, StepBackOfAFailedStoreReturnsTheErrorOfTheStore) {
  MakeBulk(2);
  Push push = PushOf(0, 0, {0, 19});
  push.gradient = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Do(push), HasSubstr("NaN or infinite"));
  EXPECT_THAT(StepBack(0), HasSubstr("NaN or infinite"));
}

}  // namespace
}  // namespace tethys
