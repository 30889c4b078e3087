// Tests training on a late device (a simulated asynchronous device), to which batches are copied ahead of
// their steps. The results must equal the results on the CPU, which reads its batches in place.
#include "workers/batch_feed.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "tests/testing/allocation_counter.h"
#include "tests/testing/late_device.h"
#include "tests/workers/replica.h"
#include "workers/evaluator.h"

namespace tethys {
namespace {

constexpr int64_t kEpochs = 3;

// The result of training: the loss of each step, the parameters, and their evaluation after the training.
struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
  proto::EvaluationDone evaluation;
};

// Trains an epoch as the trainer does: before each step announces batches until the loader is full, and at
// the end waits for all steps.
absl::Status RunEpoch(int64_t epoch, Replica& replica) {
  const auto order = std::make_shared<const EpochOrder>(1, epoch, kSamples);
  const int64_t steps = StepsPerEpoch(kSamples, kRows, false);
  int64_t announced = 0;
  for (int64_t step = 0; step < steps; ++step) {
    for (; replica.loader().room() > 0 && announced < steps; ++announced) {
      replica.loader().Announce(order, StepSlice(kSamples, kRows, announced));
    }
    const int64_t samples = StepSlice(kSamples, kRows, step).count();
    TETHYS_RETURN_IF_ERROR(replica.Step({.step = epoch * steps + step,
                                         .epoch = epoch,
                                         .sample_count = samples,
                                         .global_sample_count = samples}));
  }
  return replica.Finish();
}

Trained TrainOn(std::unique_ptr<Device> device, int prefetch_batches) {
  TestReplica test(std::move(device), 0, 1, {.feed = {.loader = {.prefetch_batches = prefetch_batches}}});
  Replica& replica = test.replica();
  EXPECT_TRUE(replica.Attach(test.MakeLocal()).ok());
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) EXPECT_EQ(StatusText(RunEpoch(epoch, replica)), "OK");
  Trained trained;
  proto::StepRecords records;
  replica.recorder().Drain(records);
  for (const proto::StepRecord& record : records.record()) trained.losses.push_back(record.loss_sum());
  trained.parameters = test.Parameters();
  trained.evaluation = replica.Evaluate(RandomSamples(kSamples, 0), {3, kSamples}).value();
  return trained;
}

TEST(BatchFeed, LateDeviceComputesOnTheSameBatchesAsTheCpu) {
  const Trained expected = TrainOn(CreateCpuDevice(1).value(), 0);
  EXPECT_EQ(expected.losses.size(), static_cast<size_t>(12));
  for (const int prefetch_batches : {0, 1, 2}) {
    const Trained trained = TrainOn(testing::CreateLateDevice(), prefetch_batches);
    EXPECT_EQ(trained.losses, expected.losses) << prefetch_batches;
    EXPECT_EQ(trained.parameters, expected.parameters) << prefetch_batches;
    EXPECT_EQ(trained.evaluation.loss_sum(), expected.evaluation.loss_sum()) << prefetch_batches;
    EXPECT_EQ(trained.evaluation.samples(), kSamples - 3);
  }
}

// The losses of six consecutive batches. With `waits`, waits for each loss before the next batch; otherwise
// waits for all losses at the end.
std::vector<double> LossesOf(bool waits) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  EXPECT_TRUE(replica.replica().Attach(replica.MakeLocal()).ok());
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
    EXPECT_TRUE(replica.plan().EnqueueLoss(&results[batch]).ok() && feed->FeedAhead().ok());
    if (waits) {
      EXPECT_TRUE(replica.stream().Synchronize().ok());
    }
  }
  EXPECT_TRUE(replica.stream().Synchronize().ok());
  std::vector<double> sums;
  for (int64_t batch = 0; batch < 6; ++batch) sums.push_back(results[batch].loss_sum);
  return sums;
}

TEST(BatchFeed, BatchIsNotOverwrittenBeforeItWasRead) { EXPECT_EQ(LossesOf(false), LossesOf(true)); }

TEST(BatchFeed, FeedAheadTakesAtMostOneAnnouncedBatchFromTheLoader) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  ASSERT_TRUE(replica.replica().Attach(replica.MakeLocal()).ok());
  const auto feed =
      BatchFeed::Create(replica.device(), replica.plan(), RandomSamples(kSamples, 0), {}).value();
  const int64_t room = feed->loader().room();
  ASSERT_TRUE(feed->FeedAhead().ok());
  EXPECT_EQ(feed->loader().room(), room);
  for (const Slice slice : {Slice{0, 16}, Slice{16, 32}}) feed->loader().Announce(nullptr, slice);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(feed->FeedAhead().ok());
  EXPECT_EQ(feed->loader().room(), room - 1);
}

TEST(BatchFeed, StepOnTheCpuAllocatesNothing) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1, {.feed = {.loader = {.prefetch_batches = 3}}});
  Replica& replica = test.replica();
  ASSERT_TRUE(replica.Attach(test.MakeLocal()).ok());
  const StepInfo step{.sample_count = kRows, .global_sample_count = kRows};
  for (int i = 0; i < 3; ++i) replica.loader().Announce(nullptr, {kRows * i, kRows * (i + 1)});
  ASSERT_TRUE(replica.Step(step).ok());  // oneDNN makes its kernels in the first step.
  const int64_t before = testing::ThreadAllocations();
  EXPECT_TRUE(replica.Step(step).ok() && replica.Step(step).ok());
  EXPECT_EQ(testing::ThreadAllocations(), before);
}

TEST(BatchFeed, FeedAheadOnTheCpuTakesNoBatch) {
  TestReplica replica(CreateCpuDevice(1).value(), 0, 1);
  ASSERT_TRUE(replica.replica().Attach(replica.MakeLocal()).ok());
  const auto feed =
      BatchFeed::Create(replica.device(), replica.plan(), RandomSamples(kSamples, 0), {}).value();
  feed->loader().Announce(nullptr, {0, 16});
  ASSERT_TRUE(feed->FeedAhead().ok());
  EXPECT_TRUE(feed->loader().ready());
}

}  // namespace
}  // namespace tethys
