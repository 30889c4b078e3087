// Steps put on a late device ahead of their predecessors' ends, as graphs: the parameters and losses are
// those of the CPU, where each step ends before the next begins, bit by bit.
#include "workers/step_pipeline.h"

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

constexpr int64_t kSamples = 50;  // Of each rank: three whole batches and one of 2.
constexpr int64_t kStepsPerEpoch = 4;
constexpr int64_t kEpochs = 13;
constexpr int64_t kAllSteps = kEpochs * kStepsPerEpoch;

std::unique_ptr<Strategy> Local(Replica& replica, Nanoseconds timeout = 30 * kSecond) {
  return CreateLocalStrategy(replica.MakeOptimizer(replica.device()), SgdConfig(), 0, 1, replica.stream(),
                             TestClock(), timeout);
}

// The training of one replica, on samples of its own.
class Training {
 public:
  // `streamed` in place of the strategy's own.
  Training(Replica& replica, std::unique_ptr<Strategy> strategy, bool graphs = true,
           StreamedSteps* streamed = nullptr)
      : replica_(replica), strategy_(std::move(strategy)) {
    phases_ = StepPhases::Create(replica.device(), replica.stream(), recorder_, streamed == nullptr).value();
    const StrategyTraits traits = replica.Prepare(*strategy_, phases_->update_events()).value();
    feed_ = BatchFeed::Create(replica.device(), replica.plan(), RandomSamples(kSamples, replica.rank()),
                              {.prefetch_batches = 1})
                .value();
    pipeline_ = StepPipeline::Create({replica.plan(), *strategy_, recorder_, *feed_, *phases_},
                                     {.device = replica.device(),
                                      .stream = replica.stream(),
                                      .streamed = streamed != nullptr ? streamed : traits.streamed,
                                      .ready_ranges = 3,
                                      .graphs = graphs})
                    .value();
  }

  absl::Status Step() {
    for (; feed_->loader().room() > 0; ++announced_) {
      const auto order = std::make_shared<const EpochOrder>(1, announced_ / kStepsPerEpoch, kSamples);
      feed_->loader().Announce(order, StepSlice(kSamples, kRows, announced_ % kStepsPerEpoch));
    }
    const int64_t epoch = step_ / kStepsPerEpoch;
    const Slice slice = StepSlice(kSamples, kRows, step_ % kStepsPerEpoch);
    return pipeline_->Run({.step = step_++,
                           .epoch = epoch,
                           .sample_count = slice.count(),
                           .global_sample_count = slice.count() * replica_.world(),
                           .schedule_position = epoch * kSamples + slice.begin});
  }
  absl::Status Steps(int64_t count) {
    for (int64_t i = 0; i < count; ++i) TETHYS_RETURN_IF_ERROR(Step());
    return absl::OkStatus();
  }
  absl::Status Finish() { return pipeline_->Finish(); }
  absl::Status All() {
    TETHYS_RETURN_IF_ERROR(Steps(kAllSteps));
    return Finish();
  }

  int64_t step() const { return step_; }
  // Of the steps recorded since the last call.
  proto::StepRecords Records() {
    proto::StepRecords records;
    recorder_.Drain(records);
    return records;
  }
  std::vector<double> Losses() {
    const proto::StepRecords records = Records();
    std::vector<double> losses;
    for (const proto::StepRecord& record : records.record()) losses.push_back(record.loss_sum());
    return losses;
  }

 private:
  Replica& replica_;
  StepRecorder recorder_{TestClock(), 0, 8};
  const std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<StepPhases> phases_;
  std::unique_ptr<StepPipeline> pipeline_;
  int64_t announced_ = 0;
  int64_t step_ = 0;
};

struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
};

Trained TrainLocally(std::unique_ptr<Device> device, bool graphs) {
  Replica replica(std::move(device), 0, 1);
  Training training(replica, Local(replica), graphs);
  EXPECT_EQ(StatusText(training.All()), "OK");
  return {training.Losses(), replica.Parameters()};
}

TEST(StepPipeline, LocallyGivesTheBitsOfTheCpuWithGraphsAndWithout) {
  const Trained expected = TrainLocally(CreateCpuDevice(1).value(), true);
  ASSERT_EQ(expected.losses.size(), static_cast<size_t>(kAllSteps));
  for (const bool graphs : {true, false}) {
    const Trained trained = TrainLocally(testing::CreateLateDevice(), graphs);
    EXPECT_EQ(trained.losses, expected.losses) << graphs;
    EXPECT_EQ(trained.parameters, expected.parameters) << graphs;
  }
}

TEST(StepPipeline, MirroredOnStreamsGivesTheBitsOfTheCpuAndGraphsGoBeforeTheCommunicator) {
  const TrainReplica train = [](Replica& replica, std::unique_ptr<Strategy> strategy) {
    return Training(replica, std::move(strategy)).All();
  };
  Fate fates[2];
  const auto parameters = TrainMirrored(
      2, [] { return testing::CreateLateDevice(); },
      [&](Replica& replica, auto ring) {
        return MirroredOnStream(replica, std::move(ring), {}, fates[replica.rank()]);
      },
      train);
  EXPECT_EQ(parameters, MirroredOnTheCpu(2, train));
  EXPECT_THAT(fates, Each(AllOf(Field(&Fate::aborted, false), Field(&Fate::graphs_left, 0))));
}

TEST(StepPipeline, MirroredInBfloat16GivesTheBitsOfRoundingByHandWithGraphsAndWithout) {
  const auto train = [](bool graphs) -> TrainReplica {
    return [graphs](Replica& replica, std::unique_ptr<Strategy> strategy) {
      return Training(replica, std::move(strategy), graphs).All();
    };
  };
  const auto expected = MirroredOnTheCpuRoundedByHand(2, train(false));
  for (const bool graphs : {true, false}) {
    Fate fates[2];
    const auto parameters = TrainMirrored(
        2, [] { return testing::CreateLateDevice(); },
        [&](Replica& replica, auto ring) {
          return MirroredOnStream(replica, std::move(ring), {}, fates[replica.rank()], InBfloat16());
        },
        train(graphs));
    EXPECT_EQ(parameters, expected) << graphs;
  }
}

// Of the first of two ranks.
proto::StepRecords MirroredSteps(const StreamMirroredOptions& options) {
  proto::StepRecords records;
  Fate fates[2];
  TrainMirrored(
      2, [] { return testing::CreateLateDevice(); },
      [&](Replica& replica, auto ring) {
        return MirroredOnStream(replica, std::move(ring), {}, fates[replica.rank()], options);
      },
      [&records](Replica& replica, std::unique_ptr<Strategy> strategy) {
        Training training(replica, std::move(strategy));
        const absl::Status trained = training.All();
        if (replica.rank() == 0) records = training.Records();
        return trained;
      });
  return records;
}

// Of the whole batches of an epoch, a sample.
double MeanLoss(const proto::StepRecords& steps, int64_t epoch) {
  const int first = static_cast<int>(epoch * kStepsPerEpoch);
  double sum = 0;
  for (int i = 0; i + 1 < kStepsPerEpoch; ++i) sum += steps.record(first + i).loss_sum();
  return sum / ((kStepsPerEpoch - 1) * kRows);
}

TEST(StepPipeline, GradientsInBfloat16AreHalfTheBytesAndTrainAsThoseInFloat32DoNearly) {
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

// The device makes the update, the host the sums.
std::unique_ptr<Strategy> MirroredByTheHost(Replica& replica, std::unique_ptr<Communicator> ring) {
  return replica.Staged(replica.MakeMirrored(std::move(ring)), replica.MakeUpdate());
}

TEST(StepPipeline, MirroredByTheHostGivesTheBitsOfTheCpu) {
  const TrainReplica train = [](Replica& replica, std::unique_ptr<Strategy> strategy) {
    return Training(replica, std::move(strategy)).All();
  };
  EXPECT_EQ(TrainMirrored(
                2, [] { return testing::CreateLateDevice(); }, MirroredByTheHost, train),
            MirroredOnTheCpu(2, train));
}

TEST(StepPipeline, WhereTheHostDrivesTheExchangeOneGraphServesAllSteps) {
  ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
    Replica replica(testing::CreateLateDevice(), 0, 1);
    Training training(replica, MirroredByTheHost(replica, std::move(ring)));
    for (const int graphs : {0, 1, 1, 1}) {
      EXPECT_EQ(StatusText(training.Step()), "OK");
      EXPECT_EQ(testing::LiveGraphs(replica.device()), graphs);
    }
    return absl::OkStatus();
  }));
}

TEST(StepPipeline, CapturesAGraphForEachTurnAfterAFirstStepWithout) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  Training training(replica, Local(replica));
  for (const int graphs : {0, 1, 2, 2, 2}) {
    ASSERT_TRUE(training.Step().ok());
    EXPECT_EQ(testing::LiveGraphs(replica.device()), graphs);
  }
}

TEST(StepPipeline, TheDeviceTellsTheTimeOfEachStepWithGraphsAndWithout) {
  for (const bool graphs : {true, false}) {
    Replica replica(testing::CreateLateDevice(), 0, 1);
    Training training(replica, Local(replica), graphs);
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

TEST(StepPipeline, TheDeviceTellsTheTimeOfAStepThatTheHostDrivesToo) {
  ExpectAllOk(InRing(1, [](std::unique_ptr<Communicator>& ring) -> absl::Status {
    Replica replica(testing::CreateLateDevice(), 0, 1);
    Training training(replica, replica.Staged(replica.MakeMirrored(std::move(ring)), replica.MakeUpdate()));
    TETHYS_RETURN_IF_ERROR(training.Steps(3));
    const proto::StepRecords records = training.Records();
    EXPECT_EQ(records.record_size(), 3);
    for (const proto::StepRecord& record : records.record()) {
      EXPECT_GE(record.forward_ns(), 5 * testing::kWorkTime);
      EXPECT_GE(record.exchange_ns(), 3 * testing::kWorkTime) << "sums of three ranges come up";
      EXPECT_GT(record.update_ns(), 0);
    }
    return absl::OkStatus();
  }));
}

TEST(StepPipeline, AStepIsRecordedWhenTheNextIsPutOrTheSegmentEnds) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  Training training(replica, Local(replica));
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
  int64_t steps_put;
  std::vector<float> parameters;
};

// A weight is NaN for step 6 only.
Stopped TrainUntilNan(std::unique_ptr<Device> device) {
  Replica replica(std::move(device), 0, 1);
  Training training(replica, Local(replica));
  EXPECT_TRUE(training.Steps(6).ok());
  const float weight = replica.Parameters()[0];
  EXPECT_TRUE(replica.SetFirstWeight(kPoison).ok());
  absl::Status status = training.Step();
  EXPECT_TRUE(replica.SetFirstWeight(weight).ok());
  if (status.ok()) status = training.All();
  return {StatusText(status), training.Losses().size(), training.step(), replica.Parameters()};
}

TEST(StepPipeline, AStepThatIsNotFiniteIsNamedAndNothingIsChangedThoughTheNextWasPut) {
  const Stopped expected = TrainUntilNan(CreateCpuDevice(1).value());
  const Stopped stopped = TrainUntilNan(testing::CreateLateDevice());
  EXPECT_THAT(stopped.error, HasSubstr("step 6 of epoch 2: the loss became nan"));
  EXPECT_EQ(stopped.error, expected.error);
  EXPECT_EQ(stopped.records, 6u);
  EXPECT_EQ(stopped.steps_put, expected.steps_put + 1);
  EXPECT_EQ(stopped.parameters, expected.parameters);
}

// Puts what no graph can hold.
class CopiesPageableMemory final : public StreamedSteps {
 public:
  explicit CopiesPageableMemory(Replica& replica) : replica_(replica) {}
  absl::Status PutUpdate(int) override {
    return replica_.device().CopyToHost(replica_.stream(), &value_, replica_.parameters().data(),
                                        sizeof(value_));
  }
  absl::StatusOr<StepOutcome> AwaitStep(const StepInfo&, const Event&) override {
    TETHYS_RETURN_IF_ERROR(replica_.stream().Synchronize());
    return StepOutcome();
  }

 private:
  Replica& replica_;
  float value_ = 0;
};

TEST(StepPipeline, AStepThatCannotBeCapturedIsAnErrorThatSaysWhyAndHowToGoWithout) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  CopiesPageableMemory steps(replica);
  const absl::Status refused = Training(replica, Local(replica), true, &steps).All();
  EXPECT_THAT(StatusText(refused), AllOf(HasSubstr("step 1 of epoch 1: "), HasSubstr("graph: false"),
                                         HasSubstr("a copy of pageable memory was captured")));
  EXPECT_TRUE(Training(replica, Local(replica), false, &steps).All().ok());
}

// A step fails on the device, and what comes behind it can no longer be put there.
class BreaksAtOnce final : public StreamedSteps {
 public:
  absl::Status PutUpdate(int) override {
    return ++put_ == 1 ? absl::OkStatus() : absl::UnavailableError("the consequence");
  }
  absl::StatusOr<StepOutcome> AwaitStep(const StepInfo&, const Event&) override {
    return absl::UnavailableError("the cause");
  }

 private:
  int put_ = 0;
};

TEST(StepPipeline, OfTwoStepsThatFailTheEarlierIsTheErrorsCause) {
  Replica replica(testing::CreateLateDevice(), 0, 1);
  BreaksAtOnce steps;
  Training training(replica, Local(replica), false, &steps);
  ASSERT_TRUE(training.Step().ok());
  EXPECT_THAT(StatusText(training.Step()), HasSubstr("step 0 of epoch 1: the cause"));
}

TEST(StepPipeline, ADeviceThatHangsEndsTheStepByItsDeadline) {
  Replica replica(testing::CreateLateDevice({.hangs = true}), 0, 1);
  const absl::Status status = Training(replica, Local(replica, 20 * kMillisecond)).All();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(StatusText(status),
              HasSubstr("step 0 of epoch 1: the device did not finish the step within 0.02"));
}

TEST(StepPipeline, ARankThatBreaksWithinAGraphIsNamedWithItsBucketAndStep) {
  Fate fate;
  absl::Status status;
  ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
    Replica replica(testing::CreateLateDevice(), 0, 1);
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
