// The lifetime of replicas: a replica outlives its strategies, and several replicas can share a process.
#include "workers/replica.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "tests/testing/late_device.h"
#include "tests/workers/replica.h"

namespace tethys {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Makes steps [begin, end) on batches of kRows samples in the order of the dataset.
absl::Status Steps(TestReplica& test, int64_t begin, int64_t end) {
  Replica& replica = test.replica();
  for (int64_t step = begin; step < end; ++step) {
    const int64_t first = step % 3 * kRows;
    replica.loader().Announce(nullptr, {first, first + kRows});
    TETHYS_RETURN_IF_ERROR(replica.Step({.step = step, .sample_count = kRows, .global_sample_count = kRows}));
  }
  return replica.Finish();
}

std::vector<float> Part(Replica& replica, size_t part) {
  std::vector<float> out;
  EXPECT_TRUE(replica
                  .ReadPart(part, {0, replica.arena_size()},
                            [&](absl::Span<const float> values) {
                              out.assign(values.begin(), values.end());
                              return absl::OkStatus();
                            })
                  .ok());
  return out;
}

std::vector<float> TrainedAtOnce(std::unique_ptr<Device> device) {
  TestReplica test(std::move(device), 0, 1);
  EXPECT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
  EXPECT_EQ(StatusText(Steps(test, 0, 6)), "OK");
  return test.Parameters();
}

// The second strategy starts with the optimizer slots (here the momentum) of the first.
std::vector<float> TrainedUnderTwoStrategies(std::unique_ptr<Device> device) {
  TestReplica test(std::move(device), 0, 1);
  Replica& replica = test.replica();
  EXPECT_TRUE(replica.Attach(test.MakeLocal()).ok());
  EXPECT_EQ(StatusText(Steps(test, 0, 3)), "OK");
  const std::vector<float> momentum = Part(replica, 1);
  replica.Detach();
  EXPECT_EQ(replica.Parts().size(), 1u);
  EXPECT_TRUE(replica.Attach(test.MakeLocal()).ok());
  EXPECT_TRUE(replica
                  .FillPart(1,
                            [&](absl::Span<float> values) {
                              std::copy(momentum.begin(), momentum.end(), values.begin());
                              return absl::OkStatus();
                            })
                  .ok());
  EXPECT_EQ(StatusText(Steps(test, 3, 6)), "OK");
  return test.Parameters();
}

TEST(Replica, TwoSuccessiveStrategiesTrainBitForBitLikeOne) {
  const std::vector<float> expected = TrainedAtOnce(CreateCpuDevice(1).value());
  EXPECT_EQ(TrainedUnderTwoStrategies(CreateCpuDevice(1).value()), expected);
  EXPECT_EQ(TrainedUnderTwoStrategies(testing::CreateLateDevice()), expected);
}

TEST(Replica, StepRecordsContinueUnderTheNextStrategy) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  for (const int64_t begin : {0, 3}) {
    ASSERT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
    ASSERT_TRUE(Steps(test, begin, begin + 3).ok());
    test.replica().Detach();
  }
  proto::StepRecords records;
  test.replica().recorder().Drain(records);
  std::vector<int64_t> steps;
  for (const proto::StepRecord& record : records.record()) steps.push_back(record.step());
  EXPECT_THAT(steps, ElementsAreArray({0, 1, 2, 3, 4, 5}));
}

TEST(Replica, SeveralReplicasInOneProcessTrainIndependently) {
  TestReplica first(CreateCpuDevice(1).value(), 0, 1), second(testing::CreateLateDevice(), 0, 1);
  ASSERT_TRUE(first.replica().Attach(first.MakeLocal()).ok());
  ASSERT_TRUE(second.replica().Attach(second.MakeLocal()).ok());
  for (int64_t step = 0; step < 6; ++step) {
    ASSERT_TRUE(Steps(first, step, step + 1).ok());
    ASSERT_TRUE(Steps(second, step, step + 1).ok());
  }
  const std::vector<float> expected = TrainedAtOnce(CreateCpuDevice(1).value());
  EXPECT_EQ(first.Parameters(), expected);
  EXPECT_EQ(second.Parameters(), expected);
}

TEST(Replica, ReplicaWithoutStrategyEvaluatesItsParameters) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  const proto::EvaluationDone sums =
      test.replica().Evaluate(RandomSamples(kSamples, 0), {0, kSamples}).value();
  EXPECT_EQ(sums.samples(), kSamples);
  EXPECT_GT(sums.loss_sum(), 0);
}

// ------------------------------------------------------------------------- before the first step

Model NormalisedModel() {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layer { convolution { filters: 4 kernel_size: 3 } } "
      "layer { batch_normalisation { activation: RELU } } layer { flatten {} } "
      "layer { name: 'hidden' dense { units: 12 } } layer { batch_normalisation {} } "
      "layer { name: 'logits' dense { units: 10 } }",
      &config));
  return Model::Create(config, {6, 6}, 10).value();
}

std::vector<std::unique_ptr<Device>> BothDevices() {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(CreateCpuDevice(1).value());
  devices.push_back(testing::CreateLateDevice());
  return devices;
}

// The time that the replica's stream needs for the work that `enqueue` enqueues.
Nanoseconds TimeOnStream(Replica& replica, absl::FunctionRef<absl::Status()> enqueue) {
  const std::unique_ptr<TimedEvent> begin = replica.device().CreateTimedEvent().value();
  const std::unique_ptr<TimedEvent> end = replica.device().CreateTimedEvent().value();
  EXPECT_TRUE(begin->Record(replica.stream()).ok());
  EXPECT_EQ(StatusText(enqueue()), "OK");
  EXPECT_TRUE(end->Record(replica.stream()).ok());
  EXPECT_TRUE(replica.stream().Synchronize().ok());
  return end->Since(*begin).value();
}

TEST(Replica, AttachComputesGradientsOnceOnAsynchronousDevice) {
  TestReplica test(testing::CreateLateDevice(), 0, 1);
  Replica& replica = test.replica();
  const Nanoseconds attached = TimeOnStream(replica, [&] { return replica.Attach(test.MakeLocal()); });
  const Nanoseconds gradients = TimeOnStream(replica, [&]() -> absl::Status {
    TETHYS_RETURN_IF_ERROR(replica.plan().Forward());
    return replica.plan().Backward([](int64_t, const Event&) { return absl::OkStatus(); });
  });
  EXPECT_GT(gradients, 0);
  EXPECT_GE(attached, gradients);
  EXPECT_LT(attached, 2 * gradients);
}

// Bytes of machine code in this process.
int64_t ExecutableBytes() {
  std::ifstream maps("/proc/self/maps");
  int64_t bytes = 0;
  uint64_t begin = 0, end = 0;
  char dash = 0;
  std::string permissions, rest;
  while (maps >> std::hex >> begin >> dash >> end >> permissions && std::getline(maps, rest)) {
    if (absl::StrContains(permissions, 'x')) bytes += static_cast<int64_t>(end - begin);
  }
  return bytes;
}

// Whether the first step runs code that was there when the strategy was attached. Meant for a process in
// which no layer has run yet.
bool FirstStepGeneratesNoCode() {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
  const int64_t created = ExecutableBytes();
  if (!test.replica().Attach(test.MakeLocal()).ok()) return false;
  const int64_t attached = ExecutableBytes();
  return Steps(test, 0, 1).ok() && created < attached && ExecutableBytes() == attached;
}

TEST(ReplicaDeathTest, FirstStepGeneratesNoMachineCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // The child is a process of its own.
  EXPECT_EXIT(std::exit(FirstStepGeneratesNoCode() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(Replica, AttachKeepsParametersSlotsAndStatistics) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    Replica& replica = test.replica();
    const std::vector<float> parameters = test.Parameters();
    std::vector<float> statistics = replica.ReadStatistics().value();
    for (size_t i = 0; i < statistics.size(); ++i) statistics[i] += 0.1f * static_cast<float>(i);
    ASSERT_TRUE(replica.SetStatistics(statistics).ok());
    ASSERT_TRUE(replica.Attach(test.MakeLocal()).ok());
    EXPECT_EQ(test.Parameters(), parameters);
    EXPECT_EQ(Part(replica, 1), std::vector<float>(parameters.size()));
    EXPECT_EQ(replica.ReadStatistics().value(), statistics);
  }
}

// The parameters after steps that compute the gradients of an empty batch before, or do not.
std::vector<float> TrainedByHand(std::unique_ptr<Device> device, bool warms_up) {
  TestReplica test(std::move(device), 0, 1, {}, NormalisedModel(), warms_up);
  EXPECT_EQ(StatusText(test.Train(test.MakeLocal())), "OK");
  return test.Parameters();
}

TEST(Replica, EmptyBatchBeforeTrainingChangesNoBit) {
  const std::vector<float> expected = TrainedByHand(CreateCpuDevice(1).value(), false);
  for (std::unique_ptr<Device>& device : BothDevices())
    EXPECT_EQ(TrainedByHand(std::move(device), true), expected);
}

// A local strategy whose layers sum over workers of which this is the only one.
class SumsOverWorkers final : public Strategy, public WorkerSums {
 public:
  explicit SumsOverWorkers(std::unique_ptr<Strategy> strategy) : strategy_(std::move(strategy)) {}
  int sums() const { return sums_; }

  WorkerSums* worker_sums() override { return this; }
  absl::Status Sum(Stream&, float*, int64_t) override {
    ++sums_;
    return absl::OkStatus();
  }

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range> order) override {
    return strategy_->Prepare(arenas, order);
  }
  absl::Status BeginStep(const StepInfo& step) override { return strategy_->BeginStep(step); }
  absl::Status GradientReady(int64_t index, const Event& event) override {
    return strategy_->GradientReady(index, event);
  }
  absl::Status EnqueueEnd(int parity) override { return strategy_->EnqueueEnd(parity); }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) override {
    return strategy_->AwaitEnd(step, done);
  }
  absl::Status Refresh() override { return strategy_->Refresh(); }
  std::vector<absl::Span<float>> slots() override { return strategy_->slots(); }

 private:
  const std::unique_ptr<Strategy> strategy_;
  int sums_ = 0;
};

TEST(Replica, EmptyBatchBeforeTrainingWaitsForNoOtherWorker) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
  auto strategy = std::make_unique<SumsOverWorkers>(test.MakeLocal());
  const SumsOverWorkers& sums = *strategy;
  ASSERT_TRUE(test.replica().Attach(std::move(strategy)).ok());
  EXPECT_EQ(sums.sums(), 0);
  ASSERT_TRUE(Steps(test, 0, 1).ok());
  EXPECT_GT(sums.sums(), 0);
}

// A strategy that cannot be prepared.
class Refuses final : public Strategy {
 public:
  absl::StatusOr<StrategyTraits> Prepare(const StepArenas&, absl::Span<const Range>) override {
    return absl::UnavailableError("no servers");
  }
  absl::Status BeginStep(const StepInfo&) override { return absl::OkStatus(); }
  absl::Status GradientReady(int64_t, const Event&) override { return absl::OkStatus(); }
  absl::Status EnqueueEnd(int) override { return absl::OkStatus(); }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo&, const Event&) override { return StepOutcome(); }
  absl::Status Refresh() override { return absl::OkStatus(); }
  std::vector<absl::Span<float>> slots() override { return {}; }
};

TEST(Replica, StrategyThatFailsToPrepareIsNotAttached) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  EXPECT_TRUE(absl::IsUnavailable(test.replica().Attach(std::make_unique<Refuses>())));
  EXPECT_EQ(test.replica().strategy(), nullptr);
  EXPECT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
}

// ------------------------------------------------------------------------------ moving statistics

std::vector<float> InitialStatistics(const Model& model) {
  std::vector<float> values(model.statistics().arena_size());
  model.statistics().FillInitialValues(0, {0, model.statistics().arena_size()}, values.data());
  return values;
}

// The statistics after a first step on the first samples of the dataset.
std::vector<float> StatisticsAfter(std::unique_ptr<Device> device, const StepInfo& step) {
  TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
  EXPECT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
  test.replica().loader().Announce(nullptr, {0, step.sample_count});
  EXPECT_TRUE(test.replica().Step(step).ok());
  EXPECT_TRUE(test.replica().Finish().ok());
  return test.replica().ReadStatistics().value();
}

TEST(ReplicaStatistics, StepsChangeThemAlikeOnEveryDevice) {
  std::vector<std::vector<float>> statistics;
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    const std::vector<float> initial = InitialStatistics(test.model());
    EXPECT_EQ(test.replica().ReadStatistics().value(), initial);
    ASSERT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
    ASSERT_TRUE(Steps(test, 0, 6).ok());
    statistics.push_back(test.replica().ReadStatistics().value());
    for (const Variable& variable : test.model().statistics().variables()) {
      for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
        EXPECT_NE(statistics.back()[i], initial[i]) << variable.name << " " << i - variable.range.begin;
      }
    }
  }
  EXPECT_EQ(statistics[0], statistics[1]);
}

TEST(ReplicaStatistics, ModelWithoutThemHasNone) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  EXPECT_EQ(test.replica().statistics_size(), 0);
  EXPECT_EQ(test.replica().ReadStatistics().value(), std::vector<float>());
  EXPECT_TRUE(test.replica().SetStatistics({}).ok());
}

TEST(ReplicaStatistics, ThoseThatWereSetAreReadBack) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    std::vector<float> values = InitialStatistics(test.model());
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.1f * static_cast<float>(i);
    ASSERT_TRUE(test.replica().SetStatistics(values).ok());
    EXPECT_EQ(test.replica().ReadStatistics().value(), values);
  }
}

TEST(ReplicaStatistics, WrongSizeIsRefusedAndChangesNothing) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    const std::vector<float> initial = InitialStatistics(test.model());
    const auto size = initial.size();
    for (const size_t wrong : {size_t{0}, size - 1, size + 1}) {
      const absl::Status status = test.replica().SetStatistics(std::vector<float>(wrong, 7));
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("of ", wrong, " elements were given, the model has ", size)));
    }
    EXPECT_EQ(test.replica().ReadStatistics().value(), initial);
    EXPECT_TRUE(absl::IsInvalidArgument(
        test.replica()
            .Evaluate(RandomSamples(kSamples, 0), {0, kSamples}, std::vector<float>(size + 1))
            .status()));
  }
}

// Makes two steps, then two more, the first of which is refused because of one parameter (the second is
// enqueued behind it where steps overlap). The moving statistics are those after the first two steps.
void ExpectRefusedStepKeepsStatistics(TestReplica& test, const char* variable, float poison) {
  ASSERT_TRUE(Steps(test, 0, 2).ok());
  const std::vector<float> before = test.replica().ReadStatistics().value();
  ASSERT_TRUE(test.SetParameter(test.model().variables().Find(variable)->range.begin, poison).ok());
  const absl::Status status = Steps(test, 2, 4);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 2 of epoch 1"));
  EXPECT_EQ(test.replica().ReadStatistics().value(), before);
}

TEST(ReplicaStatistics, RefusedStepLeavesThemUnchanged) {
  // The first spoils the statistics of the batch. The other spoils nothing but the loss and the gradients, so
  // that the statistics would stay finite.
  for (const char* variable : {"convolution_0/filters", "logits/weights"}) {
    for (const float poison : {std::nanf(""), HUGE_VALF}) {
      for (std::unique_ptr<Device>& device : BothDevices()) {
        SCOPED_TRACE(absl::StrCat(variable, " ", poison, " on ", device->Describe()));
        TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
        ASSERT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
        ExpectRefusedStepKeepsStatistics(test, variable, poison);
      }
    }
  }
}

TEST(ReplicaStatistics, RefusedMirroredStepLeavesThoseOfAllRanks) {
  for (const bool late : {false, true}) {
    ExpectAllOk(InRing(2, [&](std::unique_ptr<Communicator>& communicator) -> absl::Status {
      const int rank = communicator->rank();
      TestReplica test(late ? testing::CreateLateDevice() : CreateCpuDevice(1).value(), rank, 2, {},
                       NormalisedModel());
      std::unique_ptr<Strategy> strategy = test.MakeMirrored(std::move(communicator));
      if (late) strategy = test.Staged(std::move(strategy), test.MakeUpdate());
      TETHYS_RETURN_IF_ERROR(test.replica().Attach(std::move(strategy)));
      TETHYS_RETURN_IF_ERROR(Steps(test, 0, 2));
      const std::vector<float> before = test.replica().ReadStatistics().value();
      if (rank == 0) {
        const int64_t position = test.model().variables().Find("logits/weights")->range.begin;
        TETHYS_RETURN_IF_ERROR(test.SetParameter(position, std::nanf("")));
      }
      EXPECT_FALSE(Steps(test, 2, 3).ok()) << rank;
      EXPECT_EQ(test.replica().ReadStatistics().value(), before) << rank << " " << late;
      test.replica().Detach();
      return absl::OkStatus();
    }));
  }
}

TEST(ReplicaStatistics, EvaluationUsesItsOwnUnlessOthersAreGiven) {
  const auto samples = RandomSamples(kSamples, 1);
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    Replica& replica = test.replica();
    ASSERT_TRUE(replica.Attach(test.MakeLocal()).ok());
    ASSERT_TRUE(Steps(test, 0, 2).ok());
    const std::vector<float> own = replica.ReadStatistics().value();
    const std::vector<float> initial = InitialStatistics(test.model());
    const auto loss = [&](absl::Span<const float> statistics) {
      return replica.Evaluate(samples, {0, kSamples}, statistics).value().loss_sum();
    };
    const double with_own = loss({});
    EXPECT_EQ(loss(own), with_own);
    const double with_initial = loss(initial);
    EXPECT_GT(std::abs(with_initial - with_own), 1e-3 * with_own);
    EXPECT_EQ(replica.ReadStatistics().value(), own) << "an evaluation changes nothing";
    EXPECT_EQ(loss({}), with_own);
    ASSERT_TRUE(replica.SetStatistics(initial).ok());
    EXPECT_EQ(loss({}), with_initial);
  }
}

TEST(ReplicaStatistics, EvaluationBetweenStepsChangesNoResult) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    TestReplica plain(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
    for (TestReplica* replica : {&test, &plain}) {
      ASSERT_TRUE(replica->replica().Attach(replica->MakeLocal()).ok());
      for (int64_t step = 0; step < 4; ++step) {
        ASSERT_TRUE(Steps(*replica, step, step + 1).ok());
        if (replica == &plain) continue;
        ASSERT_TRUE(test.replica()
                        .Evaluate(RandomSamples(kSamples, 1), {0, kSamples}, InitialStatistics(test.model()))
                        .ok());
      }
    }
    EXPECT_EQ(test.Parameters(), plain.Parameters());
    EXPECT_EQ(test.replica().ReadStatistics().value(), plain.replica().ReadStatistics().value());
  }
}

TEST(ReplicaStatistics, BatchIsWeightedByItsShareOfTheStep) {
  const StepInfo alone = {.sample_count = 6, .global_sample_count = 6};
  const StepInfo half_of_two = {.sample_count = 6, .global_sample_count = 12, .workers = 2};
  const StepInfo quarter_of_two = {.sample_count = 6, .global_sample_count = 24, .workers = 2};
  const std::vector<float> initial = InitialStatistics(NormalisedModel());
  for (const bool late : {false, true}) {
    const auto after = [late](const StepInfo& step) {
      return StatisticsAfter(late ? testing::CreateLateDevice() : CreateCpuDevice(1).value(), step);
    };
    const std::vector<float> whole = after(alone), half = after(quarter_of_two);
    EXPECT_EQ(after(half_of_two), whole);
    for (size_t i = 0; i < whole.size(); ++i) {
      // Both have 0.9 of the initial value; then the second adds half of what the first adds.
      EXPECT_NEAR(half[i] - 0.9f * initial[i], (whole[i] - 0.9f * initial[i]) / 2, 1e-6) << i;
    }
  }
}

}  // namespace
}  // namespace tethys
