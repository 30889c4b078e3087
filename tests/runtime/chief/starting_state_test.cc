#include "runtime/chief/starting_state.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "runtime/chief/attempt_files.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "tests/runtime/checkpoint/checkpoint_fixture.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The job trains on twenty samples in steps of ten. Checkpoints have seed 3.
class StartingStateTest : public CheckpointTest {
 protected:
  void SaveAt(int64_t step, int64_t epoch, int64_t position, const SavedStatistics& statistics = {},
              const std::string& order = "") {
    const auto writer = Begin(step);
    for (const int slot : {0, 1}) ASSERT_TRUE(writer->Write(slot, 0, Values(slot)).ok());
    proto::TrainingState state;
    state.set_step(step);
    state.set_epoch(epoch);
    state.set_position(position);
    state.set_seed(3);
    state.set_train_samples(20);
    state.set_order(order);
    if (watched_.has_best()) *state.mutable_early_stopping() = watched_;
    ASSERT_TRUE(writer->Commit(state, {}, statistics).ok());
  }
  absl::Status Resume(const proto::JobPlan& plan) {
    return FindStartingState(plan, model_, {"momentum"}, root_, true).status();
  }

  proto::EarlyStoppingState watched_;  // SaveAt writes this into the saved state if it has a best value.
};

TEST_F(StartingStateTest, CheckpointThatMatchesThePlan_IsTheStartingState) {
  SaveAt(3, 1, 10);
  const auto start = FindStartingState(Plan("seed: 3"), model_, {"momentum"}, root_, true);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->state.step(), 3);
  EXPECT_NE(start->reader, nullptr);
}

TEST_F(StartingStateTest, ResumeWithOtherNumberOfSamples_IsRefusedNamingBothNumbers) {
  SaveAt(2, 1, 0);
  proto::JobPlan plan = Plan("seed: 3");
  plan.set_train_samples(19);
  EXPECT_THAT(std::string(Resume(plan).message()), HasSubstr("trained on 20 samples, but the job has 19"));
}

TEST_F(StartingStateTest, ResumeWithAnotherSeed_IsRefusedEvenAtTheEndOfAnEpoch) {
  SaveAt(2, 1, 0);
  const absl::Status status = Resume(Plan("seed: 7"));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("resume with --set=seed=3"));
}

TEST_F(StartingStateTest, CheckpointAtAPositionThatThePlanDoesNotUse_IsRefused) {
  SaveAt(3, 1, 10);
  proto::JobPlan plan = Plan("seed: 3 drop_remainder: true");
  plan.set_global_batch(12);
  plan.set_train_samples(20);
  EXPECT_TRUE(Resume(plan).ok()) << Resume(plan);
  plan.set_global_batch(10);
  SaveAt(4, 1, 20);
  EXPECT_TRUE(absl::IsFailedPrecondition(Resume(plan)));
}

constexpr char kSharded[] = "seed: 3 workers: 2 strategy { mirrored {} } data { sharding: DATA }";

TEST_F(StartingStateTest, ResumeInAnEpochWithAnotherOrder_IsRefusedNamingBothOrders) {
  SaveAt(3, 1, 10, {}, OrderText(Plan(kSharded)));
  const auto same = FindStartingState(Plan(kSharded), model_, {"momentum"}, root_, true);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->state.order(), "DATA over 2 workers in steps of 10");
  proto::JobPlan other_batch = Plan(kSharded);
  other_batch.set_global_batch(8);
  proto::JobPlan other_workers = Plan(kSharded);
  other_workers.mutable_job()->set_workers(3);
  proto::JobPlan shuffled_otherwise = Plan(kSharded);
  shuffled_otherwise.mutable_job()->mutable_data()->mutable_shuffle()->mutable_none();
  proto::JobPlan asynchronous = Plan(kSharded);
  asynchronous.mutable_job()->mutable_strategy()->mutable_parameter_server()->mutable_asynchronous();
  for (const proto::JobPlan& plan :
       {other_batch, other_workers, shuffled_otherwise, asynchronous, Plan("seed: 3")}) {
    const absl::Status status = Resume(plan);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("at position 10 of an epoch, whose order is DATA over 2 workers in steps of 10"));
  }
}

TEST_F(StartingStateTest, CheckpointWithoutAnOrder_CountsAsAFullShuffle) {
  SaveAt(3, 1, 10);
  EXPECT_THAT(std::string(Resume(Plan(kSharded)).message()),
              HasSubstr("whose order is a full shuffle of all samples"));
  proto::JobPlan other_batch = Plan("seed: 3 workers: 2 strategy { mirrored {} }");
  other_batch.set_global_batch(8);
  EXPECT_TRUE(Resume(other_batch).ok()) << Resume(other_batch);
}

TEST_F(StartingStateTest, CheckpointOfAnotherOrderAtTheEndOfAnEpoch_IsTheStartingState) {
  SaveAt(2, 1, 0, {}, OrderText(Plan(kSharded)));
  const auto start =
      FindStartingState(Plan("seed: 3 data { shuffle { none {} } }"), model_, {"momentum"}, root_, true);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->state.order(), "not shuffled");
}

// The moving mean and variance of a batch normalisation `layer` with two channels. Both begin at a multiple
// of 16 elements in the arena.
VariableSet Statistics(const std::string& layer = "norm") {
  VariableSet set;
  EXPECT_TRUE(set.Add(layer + "/moving_mean", {2}, "channels", InitialValue::kZeros, 0, 0).ok());
  EXPECT_TRUE(set.Add(layer + "/moving_variance", {2}, "channels", InitialValue::kOnes, 0, 0).ok());
  return set;
}

std::vector<float> Arena(std::pair<float, float> mean, std::pair<float, float> variance) {
  std::vector<float> values(32);
  values[0] = mean.first;
  values[1] = mean.second;
  values[16] = variance.first;
  values[17] = variance.second;
  return values;
}

proto::JobPlan PlanWithStatistics() {
  proto::JobPlan plan = Plan("seed: 3 workers: 2 strategy { mirrored {} }");
  AddStatistics(Statistics(), plan);
  return plan;
}

TEST_F(StartingStateTest, NewJob_BeginsWithInitialStatistics) {
  for (const bool resume : {false, true}) {
    const auto start = FindStartingState(PlanWithStatistics(), model_, {"momentum"}, root_, resume);
    ASSERT_TRUE(start.ok()) << start.status();
    EXPECT_EQ(start->statistics, (MovingStatistics{.mean = Arena({0, 0}, {1, 1})})) << resume;
  }
}

TEST_F(StartingStateTest, StartingStateOfAJobWithoutStatistics_HasNoMeanStatistics) {
  SaveAt(3, 1, 10);
  const auto start = FindStartingState(Plan("seed: 3"), model_, {"momentum"}, root_, true);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->statistics, MovingStatistics());
}

TEST_F(StartingStateTest, StatisticsOfCheckpoint_AreTheStartingStatistics) {
  const MovingStatistics saved = {.mean = Arena({2, 3}, {4, 5}),
                                  .workers = {Arena({1, 3}, {4, 4}), Arena({3, 3}, {4, 6})}};
  SaveAt(3, 1, 10, {Statistics(), saved});
  const auto start = FindStartingState(PlanWithStatistics(), model_, {"momentum"}, root_, true);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->statistics, saved);
  EXPECT_EQ(start->state.step(), 3);
  EXPECT_EQ(FindStartingState(PlanWithStatistics(), model_, {"momentum"}, root_, false)->statistics.mean,
            Arena({0, 0}, {1, 1}))
      << "a job that is not resumed starts anew";
}

TEST_F(StartingStateTest, CheckpointWithoutStatistics_IsRefusedForPlanWithStatistics) {
  SaveAt(3, 1, 10);
  const absl::Status status = Resume(PlanWithStatistics());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step-3 has no moving statistics"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'norm/moving_mean'"));
}

TEST_F(StartingStateTest, StatisticsOfAnotherLayer_AreRefusedNamingBothLayers) {
  SaveAt(3, 1, 10, {Statistics("other"), {.mean = Arena({2, 3}, {4, 5})}});
  const absl::Status status = Resume(PlanWithStatistics());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'other/moving_mean' [2] in the checkpoint and 'norm/moving_mean' [2]"));
}

// A job that ends after `epochs` or `max_steps`, whichever comes first; 0 means no limit.
proto::JobPlan Lasting(int64_t epochs, int64_t max_steps) {
  proto::JobPlan plan = Plan("");
  plan.mutable_job()->set_epochs(epochs);
  plan.mutable_job()->set_max_steps(max_steps);
  return plan;
}

proto::TrainingState At(int64_t step, int64_t epoch, int64_t position) {
  proto::TrainingState state;
  state.set_step(step);
  state.set_epoch(epoch);
  state.set_position(position);
  return state;
}

TEST(CheckLeftToTrainTest, CheckpointBeforeTheEndOfTheJob_IsAccepted) {
  EXPECT_TRUE(CheckLeftToTrain(Lasting(2, 0), At(2, 1, 0), true).ok());
}

TEST(CheckLeftToTrainTest, CheckpointBeyondTheEndOfTheJob_IsRefusedNamingBothNumbersOfEpochs) {
  const absl::Status status = CheckLeftToTrain(Lasting(2, 0), At(6, 3, 0), false);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("nothing is left to train: 3 epochs (6 steps) are done, and the job has only epochs: 2"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--set=epochs=4"));
}

TEST(CheckLeftToTrainTest, CheckpointBeyondMaxSteps_IsRefusedNamingMaxSteps) {
  const absl::Status status = CheckLeftToTrain(Lasting(0, 4), At(5, 2, 10), false);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 epochs and 10 samples (5 steps) are done"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--set=max_steps=6"));
}

TEST(CheckLeftToTrainTest, CheckpointOfAnEarlyStoppedJob_IsRefusedNamingPatience) {
  proto::JobPlan plan = Lasting(9, 0);
  plan.mutable_job()->mutable_early_stopping()->set_patience(2);
  proto::TrainingState state = At(6, 3, 0);
  state.mutable_early_stopping()->set_epochs_without(2);
  const absl::Status status = CheckLeftToTrain(plan, state, true);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--set=early_stopping.patience=3"));
}

TEST(CheckLeftToTrainTest, CheckpointAtTheEndOfTheJob_IsAcceptedUnlessTheEarlierRunSucceeded) {
  EXPECT_TRUE(CheckLeftToTrain(Lasting(2, 0), At(4, 2, 0), false).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckLeftToTrain(Lasting(2, 0), At(4, 2, 0), true)));
}

TEST_F(StartingStateTest, DamagedCheckpoint_IsRenamedOnlyWhenTheAttemptBegins) {
  SaveAt(2, 1, 0);
  SaveAt(4, 2, 0);
  std::filesystem::resize_file(Path(4) + "/model.safetensors", 100);
  auto start = FindStartingState(Plan("seed: 3"), model_, {"momentum"}, root_, true);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->state.step(), 2);
  EXPECT_THAT(Files(), ElementsAre("step-2", "step-4"));
  EXPECT_THAT(BeginCheckpoints(root_, *start), ElementsAre(HasSubstr("step-4.damaged")));
  EXPECT_THAT(Files(), ElementsAre("step-2", "step-4.damaged"));
}

TEST_F(StartingStateTest, BestCheckpointOfAnUndoneEpoch_IsUnlinked) {
  SaveAt(2, 1, 0);
  SaveAt(4, 2, 0);
  std::filesystem::create_symlink("step-4", root_ + "/best");
  StartingState start;
  start.state.mutable_best()->set_step(2);
  EXPECT_THAT(BeginCheckpoints(root_, start), IsEmpty());
  EXPECT_EQ(std::filesystem::read_symlink(root_ + "/best"), "step-2");
  start.state.clear_best();
  EXPECT_THAT(BeginCheckpoints(root_, start), IsEmpty());
  EXPECT_FALSE(std::filesystem::is_symlink(root_ + "/best"));
}

TEST_F(StartingStateTest, BestCheckpointThatNoLongerExists_IsForgottenAndReported) {
  SaveAt(4, 2, 0);
  std::filesystem::create_symlink("step-6", root_ + "/best");
  StartingState start;
  start.state.mutable_best()->set_step(2);
  EXPECT_THAT(BeginCheckpoints(root_, start), ElementsAre(HasSubstr("of epoch 1, no longer exists")));
  EXPECT_FALSE(start.state.has_best());
  EXPECT_FALSE(std::filesystem::is_symlink(root_ + "/best"));
}

TEST_F(StartingStateTest, EarlyStoppingWithAnotherMonitor_StartsOverAndReportsIt) {
  SaveAt(2, 1, 0);
  const auto note = HasSubstr("early stopping begins anew");
  const std::string rule = "seed: 3 early_stopping { monitor: VALIDATION_ACCURACY }";
  const auto same = FindStartingState(Plan(rule), model_, {"momentum"}, root_, true);
  EXPECT_THAT(same->notes, Not(Contains(note)));
  watched_.set_best(1.5);
  watched_.set_monitor(proto::VALIDATION_LOSS);
  SaveAt(4, 2, 0);
  const auto start = FindStartingState(Plan(rule), model_, {"momentum"}, root_, true);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_THAT(start->notes, Contains(note));
  EXPECT_FALSE(start->state.has_early_stopping());
}

TEST_F(StartingStateTest, InitialCheckpoint_GivesParametersButNoSlotsAndNoPosition) {
  const proto::JobPlan plan = Plan("seed: 3 initial { checkpoint: 'runs/a' }");
  EXPECT_TRUE(absl::IsNotFound(FindStartingState(plan, model_, {"momentum"}, root_, false).status()));
  {
    const auto writer = CheckpointWriter::Create(root_ + "/initial", 0, model_, {}, "test");
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Write(0, 0, Values(0)).ok());
    ASSERT_TRUE((*writer)->Commit({}).ok());
  }
  for (const bool resume : {false, true}) {
    const auto start = FindStartingState(plan, model_, {"momentum"}, root_, resume);
    ASSERT_TRUE(start.ok()) << start.status();
    EXPECT_TRUE(start->initial);
    EXPECT_NE(start->reader, nullptr);
    EXPECT_EQ(start->state.step(), 0);
    EXPECT_EQ(start->notes.back(), "starting with the values of runs/a");
  }
  SaveAt(3, 1, 10);
  const auto resumed = FindStartingState(plan, model_, {"momentum"}, root_, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_FALSE(resumed->initial);
  EXPECT_EQ(resumed->state.step(), 3);
}

}  // namespace
}  // namespace tethys
