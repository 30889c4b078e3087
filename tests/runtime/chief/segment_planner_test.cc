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

TEST(SegmentPlannerTest, AsynchronousStepUsesTheBatchOfOneWorker) {
  const SegmentPlanner planner = Planner("epochs: 1 strategy { parameter_server { asynchronous {} } }");
  EXPECT_TRUE(planner.leased());
  EXPECT_EQ(planner.batch(), 10);
  EXPECT_EQ(planner.Next(State(0, 0, 0)).steps, 10);
}

TEST(SegmentPlannerTest, BatchesOfAShardedJobAreAssignedToTheWorkersInTurn) {
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

// Describes what RestOf returns, as "2 from 30: 30-40 40-45": two updates from position 30 on, and their
// batches.
std::string RestText(const std::string& job, const std::vector<Slice>& used, int shares) {
  const SegmentPlanner planner = Planner("epochs: 1 workers: 3 " + job);
  IntervalSet set;
  for (const Slice slice : used) set.Add(slice.begin, slice.end);
  const absl::StatusOr<SegmentRest> rest = planner.RestOf(planner.Next(State(3, 0, 30)), set, shares);
  if (!rest.ok()) return "refused";
  std::string text = absl::StrCat(rest->segment.steps, " from ", rest->segment.positions.begin, ":");
  for (const BatchLease& batch : rest->batches) {
    absl::StrAppend(&text, " ", batch.positions.begin, "-", batch.positions.end);
    if (batch.owner != BatchLease::kAnyWorker) absl::StrAppend(&text, "/", batch.owner);
  }
  return text;
}

TEST(SegmentPlannerTest, UntrainedRestOfALockStepSegmentBeginsAtAStepBoundary) {
  EXPECT_EQ(RestText("", {}, 3), "3 from 30:");
  EXPECT_EQ(RestText("", {{30, 60}}, 2), "2 from 60:");
  EXPECT_EQ(RestText("", {{30, 90}}, 2), "1 from 90:") << "the last step has ten samples";
  EXPECT_EQ(RestText("", {{30, 100}}, 2), "0 from 100:");
  EXPECT_EQ(RestText("", {{30, 50}}, 2), "refused") << "within a step";
  EXPECT_EQ(RestText("", {{60, 90}}, 2), "refused") << "an earlier step is left";
  EXPECT_EQ(RestText("", {{0, 60}}, 2), "refused") << "before the segment";
  EXPECT_EQ(RestText("", {{30, 101}}, 2), "refused") << "behind it";
}

TEST(SegmentPlannerTest, UntrainedRestOfALeasedSegmentHasExactlyTheUnusedPositions) {
  const std::string asynchronous = "strategy { parameter_server { asynchronous {} } } ";
  const std::string stale = "strategy { parameter_server { stale_synchronous {} } } ";
  EXPECT_EQ(RestText(asynchronous, {{30, 40}, {60, 90}}, 3), "3 from 40: 40-50 50-60 90-100");
  EXPECT_EQ(RestText(asynchronous, {{45, 100}}, 3), "2 from 30: 30-40 40-45");
  // The global batch [60, 90) is now split between two workers, and its used positions [60, 70) are left out.
  EXPECT_EQ(RestText(stale, {{30, 70}, {90, 100}}, 2), "1 from 70: 70-75 75-90");
  EXPECT_EQ(RestText(stale + "data { sharding: DATA }", {{40, 60}, {90, 100}}, 3),
            "2 from 30: 30-40/0 60-70/0 70-80/1 80-90/2");
  for (const std::string& job : {asynchronous, stale}) {
    const SegmentPlanner planner = Planner("epochs: 1 workers: 3 " + job);
    const TrainingSegment segment = planner.Next(State(3, 0, 30));
    EXPECT_EQ(planner.RestOf(segment, {}, 3)->batches, planner.Batches(segment, 3));
    EXPECT_EQ(planner.RestOf(segment, {}, 3)->segment.steps, segment.steps);
  }
}

TEST(SegmentPlannerTest, WithoutShardingAnEpochHasAllSamplesOncePerWorker) {
  const SegmentPlanner planner = Planner("epochs: 1 workers: 3 data { sharding: OFF }");
  EXPECT_EQ(planner.epoch_positions(), 300);
  EXPECT_EQ(planner.total_steps(), 10);
}

TEST(SegmentPlannerTest, ResumeWithinAnEpochPlansTheEpochsRemainingSamples) {
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

TEST(SegmentPlannerTest, SegmentCutAtAPosition_HasOnlyTheStepsBeforeThatPosition) {
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
