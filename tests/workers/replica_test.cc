// Tests the lifetime of replicas: a replica outlives its strategies, and several replicas can share a
// process.
#include "workers/replica.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/testing/late_device.h"
#include "tests/workers/replica.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<float> TrainedAtOnce(std::unique_ptr<Device> device) {
  TestReplica test(std::move(device), 0, 1);
  EXPECT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
  EXPECT_EQ(StatusText(test.Steps(0, 6)), "OK");
  return test.Parameters();
}

// The second strategy starts with the optimizer slots (here the momentum) of the first.
std::vector<float> TrainedUnderTwoStrategies(std::unique_ptr<Device> device) {
  TestReplica test(std::move(device), 0, 1);
  Replica& replica = test.replica();
  EXPECT_TRUE(replica.Attach(test.MakeLocal()).ok());
  EXPECT_EQ(StatusText(test.Steps(0, 3)), "OK");
  const std::vector<float> momentum = test.Part(1);
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
  EXPECT_EQ(StatusText(test.Steps(3, 6)), "OK");
  return test.Parameters();
}

TEST(Replica, TwoSuccessiveStrategiesTrainBitForBitLikeOne) {
  const std::vector<float> expected = TrainedAtOnce(CreateCpuDevice(1).value());
  EXPECT_EQ(TrainedUnderTwoStrategies(CreateCpuDevice(1).value()), expected);
  EXPECT_EQ(TrainedUnderTwoStrategies(testing::CreateLateDevice()), expected);
}

TEST(Replica, StepRecordsOfTwoSuccessiveStrategiesAreAllKept) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  for (const int64_t begin : {0, 3}) {
    ASSERT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
    ASSERT_TRUE(test.Steps(begin, begin + 3).ok());
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
    ASSERT_TRUE(first.Steps(step, step + 1).ok());
    ASSERT_TRUE(second.Steps(step, step + 1).ok());
  }
  const std::vector<float> expected = TrainedAtOnce(CreateCpuDevice(1).value());
  EXPECT_EQ(first.Parameters(), expected);
  EXPECT_EQ(second.Parameters(), expected);
}

TEST(Replica, ReplicaCanEvaluateWithoutAStrategy) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  const proto::EvaluationDone sums =
      test.replica().Evaluate(RandomSamples(kSamples, 0), {0, kSamples}).value();
  EXPECT_EQ(sums.samples(), kSamples);
  EXPECT_GT(sums.loss_sum(), 0);
}

// A replica that trains on `samples`; its model takes 6 x 6 values, and it scales values of type `type`.
absl::StatusOr<std::unique_ptr<Replica>> ReplicaOf(const SampleSpec& samples, ValueType type) {
  auto source =
      std::make_shared<TestSamples>(samples, std::vector<uint8_t>(), std::vector<int32_t>(kSamples));
  return Replica::Create(MakeMlp({6, 6}, {10}), CreateCpuDevice(1).value(), TestClock(),
                         {.rows = kRows,
                          .evaluation_rows = kRows,
                          .scaling = {.type = type},
                          .train = std::make_shared<Dataset>(source, 0, kSamples)});
}

TEST(Replica, SamplesOfAnotherTypeOrSizeThanTheModelReadsAreRefused) {
  const SampleSpec floats = {.shape = {6, 6}, .labels = {}, .type = ValueType::kFloat};
  EXPECT_TRUE(ReplicaOf(floats, ValueType::kFloat).ok());
  absl::Status status = ReplicaOf(floats, ValueType::kByte).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("float32"), HasSubstr("ResolveScaling")));
  status = ReplicaOf({.shape = {6, 5}}, ValueType::kByte).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("[6, 5]"), HasSubstr("[6, 6]")));
  const std::unique_ptr<Replica> replica = ReplicaOf(floats, ValueType::kFloat).value();
  EXPECT_TRUE(absl::IsInvalidArgument(replica->Evaluate(RandomSamples(kSamples, 0), {0, kSamples}).status()));
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
  void Interrupt(const absl::Status&) override {}
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

TEST(ReplicaStatistics, StepsChangeStatisticsAlikeOnEveryDevice) {
  std::vector<std::vector<float>> statistics;
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    const std::vector<float> initial = InitialStatistics(test.model());
    EXPECT_EQ(test.replica().ReadStatistics().value(), initial);
    ASSERT_TRUE(test.replica().Attach(test.MakeLocal()).ok());
    ASSERT_TRUE(test.Steps(0, 6).ok());
    statistics.push_back(test.replica().ReadStatistics().value());
    for (const Variable& variable : test.model().statistics().variables()) {
      for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
        EXPECT_NE(statistics.back()[i], initial[i]) << variable.name << " " << i - variable.range.begin;
      }
    }
  }
  EXPECT_EQ(statistics[0], statistics[1]);
}

TEST(ReplicaStatistics, ModelWithoutNormalisationHasNoStatistics) {
  TestReplica test(CreateCpuDevice(1).value(), 0, 1);
  EXPECT_EQ(test.replica().statistics_size(), 0);
  EXPECT_EQ(test.replica().ReadStatistics().value(), std::vector<float>());
  EXPECT_TRUE(test.replica().SetStatistics({}).ok());
}

TEST(ReplicaStatistics, ReadStatisticsReturnsTheValuesThatWereSet) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    std::vector<float> values = InitialStatistics(test.model());
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.1f * static_cast<float>(i);
    ASSERT_TRUE(test.replica().SetStatistics(values).ok());
    EXPECT_EQ(test.replica().ReadStatistics().value(), values);
  }
}

TEST(ReplicaStatistics, StatisticsOfWrongSizeAreRefusedAndChangeNothing) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    const std::vector<float> initial = InitialStatistics(test.model());
    const auto size = initial.size();
    for (const size_t wrong : {size_t{0}, size - 1, size + 1}) {
      const absl::Status status = test.replica().SetStatistics(std::vector<float>(wrong, 7));
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("of ", wrong, " elements were given, but the model has ", size)));
    }
    EXPECT_EQ(test.replica().ReadStatistics().value(), initial);
    EXPECT_TRUE(absl::IsInvalidArgument(
        test.replica()
            .Evaluate(RandomSamples(kSamples, 0), {0, kSamples}, std::vector<float>(size + 1))
            .status()));
  }
}

// Makes two steps, then two more. The third step is refused because of one parameter; where steps overlap,
// the fourth step is enqueued before the refusal is known. Expects that the moving statistics equal the
// statistics after the first two steps.
void ExpectRefusedStepKeepsStatistics(TestReplica& test, const char* variable, float poison) {
  ASSERT_TRUE(test.Steps(0, 2).ok());
  const std::vector<float> before = test.replica().ReadStatistics().value();
  ASSERT_TRUE(test.SetParameter(test.model().variables().Find(variable)->range.begin, poison).ok());
  const absl::Status status = test.Steps(2, 4);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 2 of epoch 1"));
  EXPECT_EQ(test.replica().ReadStatistics().value(), before);
}

TEST(ReplicaStatistics, RefusedStepLeavesStatisticsUnchanged) {
  // The first variable spoils the statistics of the batch. The second variable spoils only the loss and the
  // gradients, so the statistics would stay finite.
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

TEST(ReplicaStatistics, RefusedMirroredStepLeavesStatisticsOfAllRanksUnchanged) {
  for (const bool late : {false, true}) {
    ExpectAllOk(InRing(2, [&](std::unique_ptr<Communicator>& communicator) -> absl::Status {
      const int rank = communicator->rank();
      TestReplica test(late ? testing::CreateLateDevice() : CreateCpuDevice(1).value(), rank, 2, {},
                       NormalisedModel());
      std::unique_ptr<Strategy> strategy = test.MakeMirrored(std::move(communicator));
      if (late) strategy = test.Staged(std::move(strategy), test.MakeUpdate());
      TETHYS_RETURN_IF_ERROR(test.replica().Attach(std::move(strategy)));
      TETHYS_RETURN_IF_ERROR(test.Steps(0, 2));
      const std::vector<float> before = test.replica().ReadStatistics().value();
      if (rank == 0) {
        const int64_t position = test.model().variables().Find("logits/weights")->range.begin;
        TETHYS_RETURN_IF_ERROR(test.SetParameter(position, std::nanf("")));
      }
      EXPECT_FALSE(test.Steps(2, 3).ok()) << rank;
      EXPECT_EQ(test.replica().ReadStatistics().value(), before) << rank << " " << late;
      test.replica().Detach();
      return absl::OkStatus();
    }));
  }
}

TEST(ReplicaStatistics, EvaluationUsesTheReplicasOwnStatisticsUnlessGivenStatistics) {
  const auto samples = RandomSamples(kSamples, 1);
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    Replica& replica = test.replica();
    ASSERT_TRUE(replica.Attach(test.MakeLocal()).ok());
    ASSERT_TRUE(test.Steps(0, 2).ok());
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

TEST(ReplicaStatistics, EvaluationBetweenStepsDoesNotChangeTrainingResults) {
  for (std::unique_ptr<Device>& device : BothDevices()) {
    TestReplica test(std::move(device), 0, 1, {}, NormalisedModel());
    TestReplica plain(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
    for (TestReplica* replica : {&test, &plain}) {
      ASSERT_TRUE(replica->replica().Attach(replica->MakeLocal()).ok());
      for (int64_t step = 0; step < 4; ++step) {
        ASSERT_TRUE(replica->Steps(step, step + 1).ok());
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

TEST(ReplicaStatistics, BatchChangesStatisticsInProportionToItsShareOfTheStep) {
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
      // Both statistics contain 0.9 of the initial value. To this, `half` adds half of the amount that
      // `whole` adds.
      EXPECT_NEAR(half[i] - 0.9f * initial[i], (whole[i] - 0.9f * initial[i]) / 2, 1e-6) << i;
    }
  }
}

}  // namespace
}  // namespace tethys
