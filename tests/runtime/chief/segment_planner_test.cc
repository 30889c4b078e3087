#include "runtime/chief/segment_planner.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

// A planner for 100 samples and a global batch of 30 over three workers: an epoch has 4 steps, the last with
// 10 samples.
SegmentPlanner Planner(const std::string& job) {
  proto::JobPlan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(job, plan.mutable_job()));
  plan.set_train_samples(100);
  plan.set_global_batch(30);
  plan.set_batch_per_worker(10);
  return SegmentPlanner(plan);
}

proto::TrainingState State(int64_t step, int64_t epoch, int64_t position) {
  proto::TrainingState state;
  state.set_step(step);
  state.set_epoch(epoch);
  state.set_position(position);
  return state;
}

TEST(SegmentPlannerTest, SegmentOfAJobWithoutSavesIsAnEpoch) {
  const TrainingSegment segment = Planner("epochs: 2").Next(State(4, 1, 0));
  EXPECT_EQ(segment.positions, (Slice{0, 100}));
  EXPECT_EQ(segment.steps, 4);
  EXPECT_TRUE(segment.ends_epoch);
}

TEST(SegmentPlannerTest, SavesSplitAnEpochIntoSegments) {
  const SegmentPlanner planner = Planner("epochs: 2 checkpoint { every_steps: 3 }");
  TrainingSegment segment = planner.Next(State(0, 0, 0));
  EXPECT_EQ(segment.positions, (Slice{0, 90}));
  EXPECT_FALSE(segment.ends_epoch);
  EXPECT_TRUE(planner.SaveDue(State(3, 0, 90), false, 0));
  segment = planner.Next(State(3, 0, 90));
  EXPECT_EQ(segment.positions, (Slice{90, 100}));
  EXPECT_TRUE(segment.ends_epoch);
  EXPECT_FALSE(planner.SaveDue(State(4, 1, 0), true, 0));
}

TEST(SegmentPlannerTest, MaxStepsEndsJobWithinEpoch) {
  const SegmentPlanner planner = Planner("epochs: 9 max_steps: 6");
  const TrainingSegment segment = planner.Next(State(4, 1, 0));
  EXPECT_EQ(segment.positions, (Slice{0, 60}));
  EXPECT_EQ(segment.steps, 2);
  EXPECT_TRUE(planner.Finished(State(6, 1, 60)));
  EXPECT_FALSE(planner.Finished(State(5, 1, 30)));
}

TEST(SegmentPlannerTest, DroppedRemainderIsNotPlanned) {
  const TrainingSegment segment = Planner("epochs: 1 drop_remainder: true").Next(State(0, 0, 0));
  EXPECT_EQ(segment.positions, (Slice{0, 90}));
  EXPECT_TRUE(segment.ends_epoch);
}

TEST(SegmentPlannerTest, AsynchronousStepIsOneWorkersBatch) {
  const SegmentPlanner planner = Planner("epochs: 1 strategy { parameter_server { asynchronous {} } }");
  EXPECT_TRUE(planner.leased());
  EXPECT_EQ(planner.batch(), 10);
  EXPECT_EQ(planner.Next(State(0, 0, 0)).steps, 10);
}

TEST(SegmentPlannerTest, BatchesOfShardedJobBelongToTheirRanks) {
  const auto owners = [](const std::string& job) {
    const SegmentPlanner planner = Planner("epochs: 1 workers: 3 " + job);
    std::vector<int> owners;
    for (const BatchLease& batch : planner.Batches(planner.Next(State(3, 0, 30)), 3)) {
      owners.push_back(batch.owner);
    }
    return owners;
  };
  const std::string asynchronous = "strategy { parameter_server { asynchronous {} } } ";
  const std::string stale = "strategy { parameter_server { stale_synchronous {} } } ";
  EXPECT_EQ(owners(asynchronous), std::vector<int>(7, BatchLease::kAnyWorker));
  EXPECT_EQ(owners(asynchronous + "data { sharding: DATA }"), (std::vector<int>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(owners(stale + "data { sharding: DATA }"), (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2}))
      << "the last step has ten samples";
}

TEST(SegmentPlannerTest, WithoutShardingEachWorkerHasAllSamplesOnce) {
  const SegmentPlanner planner = Planner("epochs: 1 workers: 3 data { sharding: OFF }");
  EXPECT_EQ(planner.epoch_positions(), 300);
  EXPECT_EQ(planner.total_steps(), 10);
}

TEST(SegmentPlannerTest, ResumeWithinAnEpochPlansTheSamplesLeftInIt) {
  const TrainingSegment segment = Planner("epochs: 1").Next(State(7, 0, 35));
  EXPECT_EQ(segment.positions, (Slice{35, 100}));
  EXPECT_EQ(segment.steps, 3) << "30, 30 and 5 samples";
}

TEST(SegmentPlannerTest, EpochSavesAreDueAtEpochEnds) {
  const SegmentPlanner planner = Planner("epochs: 9 checkpoint { every_epochs: 2 }");
  EXPECT_FALSE(planner.SaveDue(State(4, 1, 0), true, 0));
  EXPECT_TRUE(planner.SaveDue(State(8, 2, 0), true, 0));
  EXPECT_FALSE(planner.SaveDue(State(9, 2, 30), false, 0));
}

TEST(SegmentPlannerTest, SaveWithinMinSecondsOfTheLastSave_IsSkipped) {
  const SegmentPlanner planner = Planner("epochs: 9 checkpoint { every_epochs: 1 min_seconds: 60 }");
  EXPECT_FALSE(planner.SaveDue(State(4, 1, 0), true, 59));
  EXPECT_TRUE(planner.SaveDue(State(8, 2, 0), true, 60));
}

TEST(SegmentPlannerTest, ExhaustedPatience_FinishesJob) {
  proto::TrainingState state = State(8, 2, 0);
  state.mutable_early_stopping()->set_epochs_without(2);
  EXPECT_TRUE(Planner("epochs: 9 early_stopping { patience: 2 }").Finished(state));
  EXPECT_FALSE(Planner("epochs: 9 early_stopping { patience: 3 }").Finished(state)) << "resumed with more";
  EXPECT_FALSE(Planner("epochs: 9").Finished(state)) << "resumed without the rule";
}

TEST(SegmentPlannerTest, CutSegment_HasOnlyTheStepsBeforeTheCut) {
  const SegmentPlanner planner = Planner("epochs: 2");
  const TrainingSegment whole = planner.Next(State(4, 1, 0));
  const TrainingSegment cut = planner.CutAt(whole, 60);
  EXPECT_EQ(cut.positions, (Slice{0, 60}));
  EXPECT_EQ(cut.steps, 2);
  EXPECT_FALSE(cut.ends_epoch);
  EXPECT_TRUE(planner.CutAt(whole, 100).ends_epoch);
}

}  // namespace
}  // namespace tethys
