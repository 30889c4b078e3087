#include "runtime/chief/pause_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/chief/action_text.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = PauseCoordinator::State;

TaskId Worker(int index) { return {proto::WORKER, index}; }

// Two workers make run 1 of a segment that has two steps of ten samples.
class PauseCoordinatorTest : public ::testing::Test {
 protected:
  PauseCoordinatorTest() {
    segment_.Open(planner_.Next(proto::TrainingState()), 2);
    segment_.BeginRun();
  }
  absl::Status Pausing(int worker, int64_t steps, int64_t run = 1) {
    proto::Pausing pausing;
    pausing.set_run(run);
    pausing.set_steps(steps);
    return pause_.OnPausing(Worker(worker), pausing, actions_);
  }
  void RunDone(int worker) {
    roster_.at(Worker(worker)).run_done = true;
    pause_.OnRunDone(Worker(worker), actions_);
  }
  std::vector<std::string> Log() { return TakeTexts(actions_); }

  const proto::JobPlan plan_ = Plan("workers: 2 strategy { mirrored {} }");
  const SegmentPlanner planner_{plan_};
  Roster roster_{Membership::Of(plan_), 0};
  RunningSegment segment_{planner_, 20};
  PauseCoordinator pause_{roster_, segment_};
  Actions actions_;
};

TEST_F(PauseCoordinatorTest, SegmentIsCutAfterTheStepOfTheFurthestWorker) {
  pause_.Begin(0, actions_);
  EXPECT_THAT(Log(), ElementsAre("w0 pause", "w1 pause"));
  EXPECT_TRUE(Pausing(0, 0).ok());
  EXPECT_THAT(Log(), IsEmpty());
  EXPECT_TRUE(Pausing(1, 1).ok());
  EXPECT_THAT(Log(), ElementsAre("w0 cut", "w1 cut"));
  EXPECT_EQ(segment_.segment().steps, 1);
  EXPECT_EQ(pause_.state(), State::kCut);
}

TEST_F(PauseCoordinatorTest, WorkerAtTheEndOfTheSegmentIsNotPaused) {
  RunDone(0);
  pause_.Begin(0, actions_);
  EXPECT_THAT(Log(), ElementsAre("w1 pause"));
  EXPECT_TRUE(Pausing(1, 2).ok());
  EXPECT_THAT(Log(), ElementsAre("w1 cut"));
  EXPECT_EQ(segment_.segment().steps, 2);
}

TEST_F(PauseCoordinatorTest, RunDoneThatCrossesThePauseOrderCountsAsTheAnswerToIt) {
  pause_.Begin(0, actions_);
  EXPECT_TRUE(Pausing(1, 1).ok());
  Log();
  RunDone(0);
  EXPECT_THAT(Log(), ElementsAre("w1 cut"));
  EXPECT_EQ(segment_.segment().steps, 2);
}

TEST_F(PauseCoordinatorTest, RepeatedAnswerOfAWorkerDoesNotMoveTheCut) {
  pause_.Begin(0, actions_);
  for (const int64_t steps : {1, 2}) EXPECT_TRUE(Pausing(0, steps).ok());
  EXPECT_TRUE(Pausing(1, 1).ok());
  EXPECT_TRUE(Pausing(1, 1).ok());
  EXPECT_THAT(Log(), ElementsAre("w0 pause", "w1 pause", "w0 cut", "w1 cut"));
  EXPECT_EQ(segment_.segment().steps, 1);
}

// Worker 1 began the second step before its Pause arrived, and waits in that step for worker 0.
TEST_F(PauseCoordinatorTest, PauseIsSentAgainToWorkersThatAnsweredUntilAllHaveAnswered) {
  constexpr Nanoseconds kPatience = PauseCoordinator::kPatience;
  pause_.Begin(0, actions_);
  EXPECT_TRUE(Pausing(0, 1).ok());
  Log();
  pause_.OnTick(kPatience - 1, actions_);
  EXPECT_THAT(Log(), IsEmpty());
  pause_.OnTick(kPatience, actions_);
  EXPECT_THAT(Log(), ElementsAre("w0 pause")) << "worker 1 has not answered the first";
  pause_.OnTick(2 * kPatience, actions_);
  EXPECT_THAT(Log(), IsEmpty()) << "no worker has answered since";
  EXPECT_TRUE(Pausing(1, 2).ok());
  EXPECT_THAT(Log(), IsEmpty()) << "worker 0 may be about to answer with more steps";
  EXPECT_TRUE(Pausing(0, 2).ok());
  EXPECT_THAT(Log(), ElementsAre("w0 cut", "w1 cut"));
  EXPECT_EQ(segment_.segment().steps, 2);
  pause_.OnTick(9 * kPatience, actions_);
  EXPECT_THAT(Log(), IsEmpty());
}

TEST_F(PauseCoordinatorTest, WorkerAnswerBeforeThePauseOrderOrForAnotherRunHasNoEffect) {
  for (const int worker : {0, 1}) EXPECT_TRUE(Pausing(worker, 1).ok());
  pause_.Begin(0, actions_);
  Log();
  for (const int worker : {0, 1}) EXPECT_TRUE(Pausing(worker, 1, 7).ok()) << "another run";
  EXPECT_THAT(Log(), IsEmpty());
}

TEST_F(PauseCoordinatorTest, StepsOutsideTheSegmentAreRefused) {
  pause_.Begin(0, actions_);
  for (const int64_t steps : {-1, 3}) EXPECT_TRUE(absl::IsInvalidArgument(Pausing(0, steps)));
}

}  // namespace
}  // namespace tethys
