// Batches brought to a late device, ahead of their steps, against the CPU, which reads them where they lie.
#include "workers/batch_feed.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "tests/testing/allocation_counter.h"
#include "tests/testing/late_device.h"
#include "tests/workers/replica.h"
#include "workers/evaluator.h"
#include "workers/train_step.h"

namespace tethys {
namespace {

constexpr int64_t kSamples = 50;  // Three whole batches and one of 2.
constexpr int64_t kEpochs = 3;

// What training leaves: a record per step, the parameters, and their loss over all samples.
struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
  EvaluationSums evaluation;
};

// The trainer's loop: epochs are barriers, batches are announced as far ahead as there is room.
absl::Status RunEpoch(int64_t epoch, const TrainStepParts& parts) {
  const auto order = std::make_shared<const EpochOrder>(1, epoch, kSamples);
  const int64_t steps = StepsPerEpoch(kSamples, kRows, false);
  int64_t announced = 0;
  for (int64_t step = 0; step < steps; ++step) {
    for (; parts.feed.loader().room() > 0 && announced < steps; ++announced) {
      parts.feed.loader().Announce(order, StepSlice(kSamples, kRows, announced));
    }
    const int64_t samples = StepSlice(kSamples, kRows, step).count();
    TETHYS_RETURN_IF_ERROR(TrainStep(parts, {.step = epoch * steps + step,
                                             .epoch = epoch,
                                             .sample_count = samples,
                                             .global_sample_count = samples}));
  }
  return absl::OkStatus();
}

Trained TrainOn(std::unique_ptr<Device> device, int prefetch_batches) {
  Replica replica(std::move(device), 0, 1);
  const auto strategy = CreateLocalStrategy(replica.MakeOptimizer(replica.device()), SgdConfig(), 0, 1,
                                            replica.stream(), TestClock());
  EXPECT_TRUE(replica.Prepare(*strategy).ok());
  const auto samples = RandomSamples(kSamples, 0);
  StepRecorder recorder(TestClock(), 0, 3);
  const auto feed =
      BatchFeed::Create(replica.device(), replica.plan(), samples, {.prefetch_batches = prefetch_batches})
          .value();
  const auto phases = StepPhases::Create(replica.device(), replica.stream(), recorder, false).value();
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    EXPECT_EQ(StatusText(RunEpoch(epoch, {replica.plan(), *strategy, recorder, *feed, *phases})), "OK");
  }
  Trained trained;
  proto::StepRecords records;
  recorder.Drain(records);
  for (const proto::StepRecord& record : records.record()) trained.losses.push_back(record.loss_sum());
  trained.parameters = replica.Parameters();
  trained.evaluation = Evaluate(replica.device(), replica.plan(), samples, {3, kSamples}).value();
  return trained;
}

TEST(BatchFeed, ALateDeviceSeesTheBatchesOfTheCpu) {
  const Trained expected = TrainOn(CreateCpuDevice(1).value(), 0);
  EXPECT_EQ(expected.losses.size(), static_cast<size_t>(12));
  for (const int prefetch_batches : {0, 1, 2}) {
    const Trained trained = TrainOn(testing::CreateLateDevice(), prefetch_batches);
    EXPECT_EQ(trained.losses, expected.losses) << prefetch_batches;
    EXPECT_EQ(trained.parameters, expected.parameters) << prefetch_batches;
    EXPECT_EQ(trained.evaluation.loss_sum, expected.evaluation.loss_sum) << prefetch_batches;
    EXPECT_EQ(trained.evaluation.samples, kSamples - 3);
  }
}

// Losses of batches of one dataset, in order; waits for each, or for all at the end.
std::vector<double> LossesOf(bool waits) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  const auto losses = replica.device().Allocate(6 * sizeof(LossResult), MemoryKind::kPinnedHost).value();
  auto* results = static_cast<LossResult*>(losses->data());
  const auto feed =
      BatchFeed::Create(replica.device(), replica.plan(), RandomSamples(kSamples, 0), {}).value();
  int64_t announced = 0;
  for (int64_t batch = 0; batch < 6; ++batch) {
    for (; feed->loader().room() > 0; ++announced) {
      feed->loader().Announce(nullptr, {announced, announced + kRows});
    }
    EXPECT_TRUE(feed->Feed().ok() && replica.plan().TakeBatch().ok() && replica.plan().Forward().ok());
    EXPECT_TRUE(replica.plan().PutLoss(&results[batch]).ok() && feed->FeedAhead().ok());
    if (waits) {
      EXPECT_TRUE(replica.stream().Synchronize().ok());
    }
  }
  EXPECT_TRUE(replica.stream().Synchronize().ok());
  std::vector<double> sums;
  for (int64_t batch = 0; batch < 6; ++batch) sums.push_back(results[batch].loss_sum);
  return sums;
}

TEST(BatchFeed, NoBatchIsOverwrittenBeforeItWasRead) { EXPECT_EQ(LossesOf(false), LossesOf(true)); }

TEST(BatchFeed, FeedsAheadOnlyWhatWasAnnouncedAndOnlyOne) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  const auto feed =
      BatchFeed::Create(replica.device(), replica.plan(), RandomSamples(kSamples, 0), {}).value();
  const int64_t room = feed->loader().room();
  ASSERT_TRUE(feed->FeedAhead().ok());
  EXPECT_EQ(feed->loader().room(), room);
  for (const Slice slice : {Slice{0, 16}, Slice{16, 32}}) feed->loader().Announce(nullptr, slice);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(feed->FeedAhead().ok());
  EXPECT_EQ(feed->loader().room(), room - 1);
}

TEST(BatchFeed, AWholeStepOfTheCpuAllocatesNothing) {
  Replica replica(CreateCpuDevice(1).value(), 0, 1);
  const auto strategy = CreateLocalStrategy(replica.MakeOptimizer(replica.device()), SgdConfig(), 0, 1,
                                            replica.stream(), TestClock());
  ASSERT_TRUE(replica.Prepare(*strategy).ok());
  StepRecorder recorder(TestClock(), 0, 3);
  const auto feed =
      BatchFeed::Create(replica.device(), replica.plan(), RandomSamples(kSamples, 0), {.prefetch_batches = 3})
          .value();
  const auto phases = StepPhases::Create(replica.device(), replica.stream(), recorder, true).value();
  const TrainStepParts parts{replica.plan(), *strategy, recorder, *feed, *phases};
  const StepInfo step{.sample_count = kRows, .global_sample_count = kRows};
  for (int i = 0; i < 3; ++i) feed->loader().Announce(nullptr, {kRows * i, kRows * (i + 1)});
  ASSERT_TRUE(TrainStep(parts, step).ok());  // In the first, oneDNN makes its kernels.
  const int64_t before = testing::ThreadAllocations();
  EXPECT_TRUE(TrainStep(parts, step).ok() && TrainStep(parts, step).ok());
  EXPECT_EQ(testing::ThreadAllocations(), before);
}

TEST(BatchFeed, TheCpuIsFedAsItsStepsBegin) {
  Replica replica(CreateCpuDevice(1).value(), 0, 1);
  const auto feed =
      BatchFeed::Create(replica.device(), replica.plan(), RandomSamples(kSamples, 0), {}).value();
  feed->loader().Announce(nullptr, {0, 16});
  ASSERT_TRUE(feed->FeedAhead().ok());
  EXPECT_TRUE(feed->loader().ready());
}

}  // namespace
}  // namespace tethys
