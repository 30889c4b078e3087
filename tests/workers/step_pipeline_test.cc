// On a late device (the simulated asynchronous device of tests/testing/late_device.h), each step is enqueued
// as a graph before the previous step ends. Parameters and losses must equal, bit for bit, the parameters and
// losses on the CPU, where each step ends before the next begins.
#include "workers/step_pipeline.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/workers/ring_on_stream.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr int64_t kStepsPerEpoch = 4;
constexpr int64_t kEpochs = 13;
constexpr int64_t kAllSteps = kEpochs * kStepsPerEpoch;

// Trains one replica by Replica::Step, with batches announced ahead.
class Training {
 public:
  Training(TestReplica& replica, std::unique_ptr<Strategy> strategy)
      : world_(replica.world()), replica_(replica.replica()) {
    const absl::Status attached = replica_.Attach(std::move(strategy));
    EXPECT_TRUE(attached.ok()) << attached;
  }
  ~Training() { replica_.Detach(); }

  absl::Status Step() {
    for (; replica_.loader().room() > 0; ++announced_) {
      const auto order = std::make_shared<const EpochOrder>(1, announced_ / kStepsPerEpoch, kSamples);
      replica_.loader().Announce(order, StepSlice(kSamples, kRows, announced_ % kStepsPerEpoch));
    }
    const int64_t epoch = step_ / kStepsPerEpoch;
    const Slice slice = StepSlice(kSamples, kRows, step_ % kStepsPerEpoch);
    return replica_.Step({.step = step_++,
                          .epoch = epoch,
                          .sample_count = slice.count(),
                          .global_sample_count = slice.count() * world_,
                          .schedule_position = epoch * kSamples + slice.begin});
  }
  absl::Status Steps(int64_t count) {
    for (int64_t i = 0; i < count; ++i) TETHYS_RETURN_IF_ERROR(Step());
    return absl::OkStatus();
  }
  absl::Status Finish() { return replica_.Finish(); }
  absl::Status All() {
    TETHYS_RETURN_IF_ERROR(Steps(kAllSteps));
    return Finish();
  }

  int64_t step() const { return step_; }
  // The steps recorded since the last call.
  proto::StepRecords Records() {
    proto::StepRecords records;
    replica_.recorder().Drain(records);
    return records;
  }
  std::vector<double> Losses() {
    const proto::StepRecords records = Records();
    std::vector<double> losses;
    for (const proto::StepRecord& record : records.record()) losses.push_back(record.loss_sum());
    return losses;
  }

 private:
  const int world_;
  Replica& replica_;
  int64_t announced_ = 0;
  int64_t step_ = 0;
};

struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;  // The parameters, followed by the moving statistics.
};

Trained TrainLocally(std::unique_ptr<Device> device, bool graphs, int64_t micro_batches = 1,
                     Model model = MakeMlp({6, 6}, {24, 12, 10})) {
  TestReplica replica(std::move(device), 0, 1, {.micro_batches = micro_batches, .graphs = graphs},
                      std::move(model));
  Training training(replica, replica.MakeLocal());
  EXPECT_EQ(StatusText(training.All()), "OK");
  std::vector<float> values = replica.Parameters();
  const std::vector<float> statistics = replica.replica().ReadStatistics().value();
  values.insert(values.end(), statistics.begin(), statistics.end());
  return {training.Losses(), std::move(values)};
}

TEST(StepPipeline, LocalTrainingEqualsCpuTrainingBitForBitWithAndWithoutGraphs) {
  const Trained expected = TrainLocally(CreateCpuDevice(1).value(), true);
  ASSERT_EQ(expected.losses.size(), static_cast<size_t>(kAllSteps));
  for (const bool graphs : {true, false}) {
    const Trained trained = TrainLocally(testing::CreateLateDevice(), graphs);
    EXPECT_EQ(trained.losses, expected.losses) << graphs;
    EXPECT_EQ(trained.parameters, expected.parameters) << graphs;
  }
}

// The second and third part of an epoch's last batch, which has two samples, are empty.
TEST(StepPipeline, MicroBatchedTrainingEqualsCpuTrainingBitForBitWithAndWithoutGraphs) {
  proto::Model config;
  config.add_layer()->mutable_flatten();
  config.add_layer()->mutable_dense()->set_units(12);
  config.add_layer()->mutable_batch_normalisation()->set_activation(proto::TANH);
  config.add_layer()->mutable_dropout()->set_rate(0.25);
  config.add_layer()->mutable_dense()->set_units(10);
  const Model model = Model::Create(config, {6, 6}, 10).value();
  const Trained expected = TrainLocally(CreateCpuDevice(1).value(), true, 3, model);
  ASSERT_EQ(expected.losses.size(), static_cast<size_t>(kAllSteps));
  EXPECT_LT(expected.losses.back(), 0.8 * expected.losses[kStepsPerEpoch - 1]);
  for (const bool graphs : {true, false}) {
    const Trained trained = TrainLocally(testing::CreateLateDevice(), graphs, 3, model);
    EXPECT_EQ(trained.losses, expected.losses) << graphs;
    EXPECT_EQ(trained.parameters, expected.parameters) << graphs;
  }
}

TEST(StepPipeline, MirroredTrainingOnStreamsEqualsCpuBitForBitAndLeavesNoGraph) {
  const TrainReplica train = [](TestReplica& replica, std::unique_ptr<Strategy> strategy) {
    return Training(replica, std::move(strategy)).All();
  };
  Fate fates[2];
  const auto parameters = TrainMirrored(
      2, [] { return testing::CreateLateDevice(); },
      [&](TestReplica& replica, auto ring) {
        return MirroredOnStream(replica, std::move(ring), {}, fates[replica.rank()]);
      },
      train);
  EXPECT_EQ(parameters, MirroredOnTheCpu(2, train));
  EXPECT_THAT(fates, Each(AllOf(Field(&Fate::aborted, false), Field(&Fate::graphs_left, 0))));
}

TEST(StepPipeline, Bfloat16ExchangeTrainsTheParametersOfACpuThatRoundsGradients) {
  const TrainReplica train = [](TestReplica& replica, std::unique_ptr<Strategy> strategy) {
    return Training(replica, std::move(strategy)).All();
  };
  const auto expected = MirroredOnTheCpuRoundedByHand(2, train);
  for (const bool graphs : {true, false}) {
    Fate fates[2];
    const auto parameters = TrainMirrored(
        2, [] { return testing::CreateLateDevice(); },
        [&](TestReplica& replica, auto ring) {
          return MirroredOnStream(replica, std::move(ring), {}, fates[replica.rank()], InBfloat16());
        },
        train, {.graphs = graphs});
    EXPECT_EQ(parameters, expected) << graphs;
  }
}

// Trains two mirrored ranks; returns the step records of rank 0.
proto::StepRecords MirroredSteps(const StreamMirroredOptions& options) {
  proto::StepRecords records;
  Fate fates[2];
  TrainMirrored(
      2, [] { return testing::CreateLateDevice(); },
      [&](TestReplica& replica, auto ring) {
        return MirroredOnStream(replica, std::move(ring), {}, fates[replica.rank()], options);
      },
      [&records](TestReplica& replica, std::unique_ptr<Strategy> strategy) {
        Training training(replica, std::move(strategy));
        const absl::Status trained = training.All();
        if (replica.rank() == 0) records = training.Records();
        return trained;
      });
  return records;
}

// The mean loss of a sample over the full batches of an epoch.
double MeanLoss(const proto::StepRecords& steps, int64_t epoch) {
  const int first = static_cast<int>(epoch * kStepsPerEpoch);
  double sum = 0;
  for (int i = 0; i + 1 < kStepsPerEpoch; ++i) sum += steps.record(first + i).loss_sum();
  return sum / ((kStepsPerEpoch - 1) * kRows);
}

TEST(StepPipeline, Bfloat16GradientsHalveExchangedBytesAndHardlyChangeLosses) {
  const proto::StepRecords exact = MirroredSteps(InFloat32()), rounded = MirroredSteps(InBfloat16());
  ASSERT_EQ(exact.record_size(), kAllSteps);
  ASSERT_EQ(rounded.record_size(), kAllSteps);
  EXPECT_GT(exact.record(0).bytes_out(), 0);
  for (int i = 0; i < kAllSteps; ++i) {
    EXPECT_EQ(2 * rounded.record(i).bytes_out(), exact.record(i).bytes_out());
    EXPECT_EQ(2 * rounded.record(i).bytes_in(), exact.record(i).bytes_in());
  }
  EXPECT_LT(MeanLoss(rounded, kEpochs - 1), 0.9 * MeanLoss(rounded, 0));
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    EXPECT_NEAR(MeanLoss(rounded, epoch) / MeanLoss(exact, epoch), 1, 1e-3) << epoch;
  }
}

// A strategy in which the host sums the gradients and the device updates the parameters.
std::unique_ptr<Strategy> MirroredByTheHost(TestReplica& replica, std::unique_ptr<Communicator> ring) {
  return replica.Staged(replica.MakeMirrored(std::move(ring)), replica.MakeUpdate());
}

TEST(StepPipeline, MirroredTrainingWithHostDrivenExchangeEqualsCpuBitForBit) {
  const TrainReplica train = [](TestReplica& replica, std::unique_ptr<Strategy> strategy) {
    return Training(replica, std::move(strategy)).All();
  };
  EXPECT_EQ(TrainMirrored(
                2, [] { return testing::CreateLateDevice(); }, MirroredByTheHost, train),
            MirroredOnTheCpu(2, train));
}

TEST(StepPipeline, HostDrivenExchangeUsesOneGraphForAllSteps) {
  ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
    TestReplica replica(testing::CreateLateDevice(), 0, 1);
    Training training(replica, MirroredByTheHost(replica, std::move(ring)));
    for (const int graphs : {0, 1, 1, 1}) {
      EXPECT_EQ(StatusText(training.Step()), "OK");
      EXPECT_EQ(testing::LiveGraphs(replica.device()), graphs);
    }
    return absl::OkStatus();
  }));
}

TEST(StepPipeline, FirstStepIsNotCapturedAndEachOfTheNextTwoStepsCapturesAGraph) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  Training training(replica, replica.MakeLocal());
  for (const int graphs : {0, 1, 2, 2, 2}) {
    ASSERT_TRUE(training.Step().ok());
    EXPECT_EQ(testing::LiveGraphs(replica.device()), graphs);
  }
}

TEST(StepPipeline, StepRecordsHaveDeviceTimesWithAndWithoutGraphs) {
  for (const bool graphs : {true, false}) {
    TestReplica replica(testing::CreateLateDevice(), 0, 1, {.graphs = graphs});
    Training training(replica, replica.MakeLocal());
    ASSERT_TRUE(training.Steps(8).ok() && training.Finish().ok());
    const proto::StepRecords records = training.Records();
    for (const proto::StepRecord& record : records.record()) {
      EXPECT_GE(record.forward_ns(), 5 * testing::kWorkTime) << "conversion, three layers and the loss";
      EXPECT_EQ(record.forward_ns(), records.record(0).forward_ns()) << record.step();
      EXPECT_EQ(record.backward_ns(), records.record(0).backward_ns()) << record.step();
      EXPECT_EQ(record.update_ns(), records.record(0).update_ns()) << record.step();
      EXPECT_EQ(record.exchange_ns(), testing::kWorkTime) << "nothing but the event where the update begins";
    }
  }
}

TEST(StepPipeline, HostDrivenStepsHaveDeviceTimes) {
  ExpectAllOk(InRing(1, [](std::unique_ptr<Communicator>& ring) -> absl::Status {
    TestReplica replica(testing::CreateLateDevice(), 0, 1);
    Training training(replica, replica.Staged(replica.MakeMirrored(std::move(ring)), replica.MakeUpdate()));
    TETHYS_RETURN_IF_ERROR(training.Steps(3));
    const proto::StepRecords records = training.Records();
    EXPECT_EQ(records.record_size(), 3);
    for (const proto::StepRecord& record : records.record()) {
      EXPECT_GE(record.forward_ns(), 5 * testing::kWorkTime);
      EXPECT_GE(record.exchange_ns(), 3 * testing::kWorkTime) << "the sums of three ranges are uploaded";
      EXPECT_GT(record.update_ns(), 0);
    }
    return absl::OkStatus();
  }));
}

TEST(StepPipeline, StepIsRecordedWhenTheNextStepIsEnqueuedOrByFinish) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  Training training(replica, replica.MakeLocal());
  ASSERT_TRUE(training.Steps(5).ok());
  EXPECT_EQ(training.Losses().size(), 4u);
  ASSERT_TRUE(training.Finish().ok());
  EXPECT_EQ(training.Losses().size(), 1u);
  ASSERT_TRUE(training.Finish().ok());
  EXPECT_EQ(training.Losses().size(), 0u);
}

struct Stopped {
  std::string error;
  size_t records;
  int64_t steps_enqueued;
  std::vector<float> parameters;
};

// Trains until an error. A weight is NaN for step 6 only.
Stopped TrainUntilNan(std::unique_ptr<Device> device) {
  TestReplica replica(std::move(device), 0, 1);
  Training training(replica, replica.MakeLocal());
  EXPECT_TRUE(training.Steps(6).ok());
  const float weight = replica.Parameters()[0];
  EXPECT_TRUE(replica.SetFirstWeight(kPoison).ok());
  absl::Status status = training.Step();
  EXPECT_TRUE(replica.SetFirstWeight(weight).ok());
  if (status.ok()) status = training.All();
  return {StatusText(status), training.Losses().size(), training.step(), replica.Parameters()};
}

TEST(StepPipeline, ErrorNamesTheStepWithNonFiniteLossAndLaterStepsChangeNothing) {
  const Stopped expected = TrainUntilNan(CreateCpuDevice(1).value());
  const Stopped stopped = TrainUntilNan(testing::CreateLateDevice());
  EXPECT_THAT(stopped.error, HasSubstr("step 6 of epoch 2: the loss became nan"));
  EXPECT_EQ(stopped.error, expected.error);
  EXPECT_EQ(stopped.records, 6u);
  EXPECT_EQ(stopped.steps_enqueued, expected.steps_enqueued + 1);
  EXPECT_EQ(stopped.parameters, expected.parameters);
}

// A local strategy without EnqueueEnd and AwaitEnd, which derived classes define.
class LocalBut : public Strategy {
 public:
  explicit LocalBut(TestReplica& replica) : inner_(replica.MakeLocal()) {}
  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range> order) override {
    TETHYS_RETURN_IF_ERROR(inner_->Prepare(arenas, order).status());
    return StrategyTraits{.stream_only = true};
  }
  absl::Status BeginStep(const StepInfo& step) override { return inner_->BeginStep(step); }
  absl::Status GradientReady(int64_t index, const Event& event) override {
    return inner_->GradientReady(index, event);
  }
  absl::Status Refresh() override { return absl::OkStatus(); }
  std::vector<absl::Span<float>> slots() override { return inner_->slots(); }
  void Interrupt(const absl::Status& status) override { inner_->Interrupt(status); }

 private:
  const std::unique_ptr<Strategy> inner_;
};

// Enqueues work that no graph can capture: a copy to pageable memory.
class CopiesPageableMemory final : public LocalBut {
 public:
  explicit CopiesPageableMemory(TestReplica& replica) : LocalBut(replica), replica_(replica) {}
  absl::Status EnqueueEnd(int) override {
    return replica_.device().CopyToHost(replica_.stream(), &value_, replica_.parameters().data(),
                                        sizeof(value_));
  }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo&, const Event&) override {
    TETHYS_RETURN_IF_ERROR(replica_.stream().Synchronize());
    return StepOutcome();
  }

 private:
  TestReplica& replica_;
  float value_ = 0;
};

TEST(StepPipeline, StepThatCannotBeCapturedInAGraphFailsNamingTheRemedy) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1);
  const absl::Status refused = Training(replica, std::make_unique<CopiesPageableMemory>(replica)).All();
  EXPECT_THAT(StatusText(refused), AllOf(HasSubstr("step 1 of epoch 1: "), HasSubstr("graph: false"),
                                         HasSubstr("a copy of pageable memory was captured")));
  TestReplica without(testing::CreateLateDevice(), 0, 1, {.graphs = false});
  EXPECT_TRUE(Training(without, std::make_unique<CopiesPageableMemory>(without)).All().ok());
}

// The first step fails on the device, and the end of the second step cannot be enqueued.
class BreaksAtOnce final : public LocalBut {
 public:
  using LocalBut::LocalBut;
  absl::Status EnqueueEnd(int) override {
    return ++put_ == 1 ? absl::OkStatus() : absl::UnavailableError("the consequence");
  }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo&, const Event&) override {
    return absl::UnavailableError("the cause");
  }

 private:
  int put_ = 0;
};

TEST(StepPipeline, ErrorNamesTheEarlierOfTwoFailedSteps) {
  TestReplica replica(testing::CreateLateDevice(), 0, 1, {.graphs = false});
  Training training(replica, std::make_unique<BreaksAtOnce>(replica));
  ASSERT_TRUE(training.Step().ok());
  EXPECT_THAT(StatusText(training.Step()), HasSubstr("step 0 of epoch 1: the cause"));
}

// Simulates parameter servers that set all parameters to `value` and refuse every push.
class RefusesPushes final : public Strategy {
 public:
  explicit RefusesPushes(float value) : value_(value) {}
  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range>) override {
    std::fill_n(arenas.parameters, arenas.arena_size, value_);
    return StrategyTraits();
  }
  absl::Status BeginStep(const StepInfo&) override { return absl::OkStatus(); }
  absl::Status GradientReady(int64_t, const Event&) override { return absl::OkStatus(); }
  absl::Status EnqueueEnd(int) override { return absl::FailedPreconditionError("refused"); }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo&, const Event&) override { return StepOutcome(); }
  absl::Status Refresh() override { return absl::OkStatus(); }
  std::vector<absl::Span<float>> slots() override { return {}; }
  void Interrupt(const absl::Status&) override {}

 private:
  const float value_;
};

TEST(StepPipeline, NonFiniteLossIsReportedInsteadOfTheFailedPushThatItCauses) {
  for (const auto& [value, error] : {std::pair(0.0f, "refused"), std::pair(kPoison, "the loss became nan")}) {
    TestReplica cpu(CreateCpuDevice(1).value(), 0, 1), late(testing::CreateLateDevice(), 0, 1);
    EXPECT_THAT(StatusText(Training(cpu, std::make_unique<RefusesPushes>(value)).Step()),
                HasSubstr(absl::StrCat("step 0 of epoch 1: ", error)));
    auto staged = late.Staged(std::make_unique<RefusesPushes>(value), absl::nullopt);
    EXPECT_THAT(StatusText(Training(late, std::move(staged)).Step()),
                HasSubstr(absl::StrCat("step 0 of epoch 1: ", error)));
  }
}

TEST(StepPipeline, HungDeviceFailsTheStepAtTheDeadline) {
  TestReplica replica(testing::CreateLateDevice({.hangs = true}), 0, 1);
  const absl::Status status = Training(replica, replica.MakeLocal(20 * kMillisecond)).All();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(StatusText(status),
              HasSubstr("step 0 of epoch 1: the device did not finish the step within 0.02"));
}

TEST(StepPipeline, BrokenReductionInAGraphIsNamedWithBucketAndStep) {
  Fate fate;
  absl::Status status;
  ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
    TestReplica replica(testing::CreateLateDevice(), 0, 1);
    status =
        Training(replica, MirroredOnStream(replica, std::move(ring), {.breaks_at = 3 * 5 + 1}, fate)).All();
    return absl::OkStatus();
  }));
  EXPECT_THAT(StatusText(status), AllOf(HasSubstr("step 5"), HasSubstr("bucket 1 of 3"), HasSubstr("broke")));
  EXPECT_TRUE(fate.aborted);
  EXPECT_EQ(fate.graphs_at_abort, 0);
}

}  // namespace
}  // namespace tethys
