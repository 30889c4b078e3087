// Tests mirrored jobs whose workers form new groups: after losses, replacements and failed exchanges, and
// which steps count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/chief/group_fixture.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kThree[] = "workers: 3 strategy { mirrored {} } max_restarts: 2";

class MirroredGroupTest : public GroupTest {
 protected:
  void Begin(const std::string& job = kThree) { GroupTest::Begin(job); }
};

TEST_F(MirroredGroupTest, RemainingWorkersContinueFromTheNewestStepAfterAWorkerLoss) {
  Begin();
  for (int worker = 0; worker < 3; ++worker) Record(worker, 0, 4 * worker - (worker == 2), 4 + 3 * worker);
  Log();
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w2 halt"));
  Halted(0, 1, 1);
  EXPECT_THAT(Log(), IsEmpty());
  Halted(2, 1, 1);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w2 form"));
  EXPECT_EQ(LastForm().group().generation(), 2u);
  EXPECT_EQ(LastForm().group().member_size(), 2);
  EXPECT_EQ(LastForm().step(), 1);
  EXPECT_THAT(LastForm().behind(), IsEmpty());
  Formed(0, 2);
  EXPECT_THAT(Log(), IsEmpty());
  Formed(2, 2);
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w2 run"));
  EXPECT_EQ(LastRun().generation(), 2u);
  EXPECT_EQ(LastRun().first_step(), 1);
  EXPECT_EQ(LastRun().begin(), 10);
  EXPECT_EQ(LastRun().end(), 20);
  Record(0, 1, 10, 15);
  Record(2, 1, 15, 20);
  for (const int worker : {0, 2}) Say(Worker(worker), "run_done { run: 2 }");
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate", "w2 evaluate"));
  EXPECT_THAT(journal_, HasSubstr("group 2 1 0 2\n"));
  EXPECT_EQ(Summary().group_change_size(), 1);
  EXPECT_EQ(Summary().group_change(0).step(), 1);
}

TEST_F(MirroredGroupTest, WorkerThatLacksTheNewestStepCopiesItsParameters) {
  Begin();
  Vanish(Worker(2));
  Halted(0, 1, 0);
  Halted(1, 1, 1);
  EXPECT_EQ(LastForm().step(), 1);
  EXPECT_EQ(LastForm().source(), 1);
  EXPECT_THAT(LastForm().behind(), ElementsAre(0));
}

TEST_F(MirroredGroupTest, StepCountsOnceEveryWorkerOfTheGroupHasRecordedIt) {
  Begin();
  Record(0, 0, 0, 4);
  Record(1, 0, 4, 7);
  EXPECT_THAT(journal_, Not(HasSubstr("used")));
  Record(2, 0, 7, 10);
  EXPECT_THAT(journal_, HasSubstr("used 0 0 0 4\nused 1 0 4 3\nused 2 0 7 3\n"));
}

TEST_F(MirroredGroupTest, StepThatANewGroupContinuesFromCountsWithoutTheLostWorkersRecord) {
  Begin();
  Record(0, 0, 0, 4);
  Vanish(Worker(2));
  Halted(0, 1, 1);
  Halted(1, 1, 0);
  Formed(0, 2);
  EXPECT_THAT(journal_, Not(HasSubstr("used")));
  Formed(1, 2);
  EXPECT_THAT(journal_, HasSubstr("used 0 0 0 4\nused 1 0 4 3\nused 2 0 7 3\n"));
  EXPECT_EQ(Summary().group_change(0).unrecorded_samples(), 6);
}

// Worker 0, the only worker with the parameters after step 0, is lost while worker 1 copies them.
TEST_F(MirroredGroupTest, StepWhoseParametersAreLostIsRepeatedAndCountsOnce) {
  Begin();
  Record(0, 0, 0, 4);
  Vanish(Worker(2));
  Halted(0, 1, 1);
  Halted(1, 1, 0);
  Vanish(Worker(0));
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w1 halt", "w0 form", "w1 form", "w1 halt"));
  Halted(1, 2, 0);
  Formed(1, 3);
  EXPECT_EQ(LastRun().first_step(), 0);
  EXPECT_THAT(journal_, Not(HasSubstr("used")));
  Record(1, 0, 0, 10);
  EXPECT_THAT(journal_, HasSubstr("used 1 0 0 10\n"));
  EXPECT_EQ(Summary().group_change(0).steps_again(), 1);
}

TEST_F(MirroredGroupTest, HaltDoesNotWaitForALostWorker) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 0);
  Log();
  Vanish(Worker(2));
  EXPECT_THAT(Log(), ElementsAre("w0 form"));
}

TEST_F(MirroredGroupTest, FailedExchangeOfOneWorkerHaltsTheOtherWorkers) {
  Begin();
  Say(Worker(1), "halted { generation: 1 applied: 0 suspect: 2 reason: 'the ring broke' }");
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w2 halt"));
  Halted(0, 1, 0);
  Halted(2, 1, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w1 form", "w2 form"));
}

TEST_F(MirroredGroupTest, WorkerBlamedTwiceWithoutAStepBetweenCountsAsLost) {
  Begin();
  Say(Worker(1), "halted { generation: 1 applied: 0 suspect: 2 reason: 'the ring broke' }");
  Halted(0, 1, 0);
  Halted(2, 1, 0);
  for (int worker = 0; worker < 3; ++worker) Formed(worker, 2);
  Log();
  Say(Worker(0), "halted { generation: 2 applied: 0 suspect: 2 reason: 'the ring broke' }");
  EXPECT_THAT(Log(), ElementsAre("w1 halt", "w2 halt"));
  Halted(1, 2, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w1 form"));
  EXPECT_THAT(journal_, HasSubstr("lost worker 2 exchanges with it failed 2 times in a row"));
}

TEST_F(MirroredGroupTest, ReplacementJoinsTheGroupWithACopyOfTheState) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 1);
  Halted(2, 1, 1);
  Log();
  JoinAgain(1);
  EXPECT_THAT(Log(), ElementsAre("w1 setup"));
  EXPECT_FALSE(Last(proto::ToTask::kSetup).order.setup().restore());
  Formed(0, 2);
  Log();
  Formed(2, 2);
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w2 run", "w0 halt", "w2 halt"));
  Halted(0, 2, 1);
  Halted(2, 2, 1);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w1 form", "w2 form"));
  EXPECT_THAT(LastForm().behind(), ElementsAre(1));
  EXPECT_EQ(LastForm().source(), 0);
  Formed(0, 3);
  Formed(2, 3);
  SayAs(2, Worker(1), "formed { generation: 3 }");
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w1 run", "w2 run"));
  EXPECT_GE(Summary().worker_loss(0).replaced_seconds(), 0);
}

// Worker 1's replacement has not copied the parameters, so its answer to Halt has no number of applied steps.
// No worker may continue from the replacement's initial values.
TEST_F(MirroredGroupTest, JobEndsIfNoWorkerHasTheParametersAnyMore) {
  Begin("workers: 2 strategy { mirrored {} } max_restarts: 2");
  Vanish(Worker(1));
  JoinAgain(1);
  Halted(0, 1, 0);
  Vanish(Worker(0));
  SayAs(2, Worker(1), "halted { generation: 2 }");
  Tick(0.1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 0"));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("no other worker has the parameters of step 0"));
}

TEST_F(MirroredGroupTest, AnswerOfAnEarlierGroupHasNoEffect) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 1);
  Halted(2, 1, 1);
  Log();
  Halted(0, 1, 1);
  EXPECT_THAT(Log(), IsEmpty());
  Formed(0, 1);
  Formed(2, 2);
  EXPECT_THAT(Log(), IsEmpty());
}

TEST_F(MirroredGroupTest, WorkerThatReportsAnImpossibleNumberOfStepsCountsAsLost) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 3);
  EXPECT_THAT(journal_, HasSubstr("lost worker 0 it has the parameters of 3 steps"));
  Log();
  Halted(2, 1, 0);
  EXPECT_THAT(Log(), ElementsAre("w2 form"));
}

TEST_F(MirroredGroupTest, JobThatWaitsAfterAWorkerLossFormsAGroupOnceTheReplacementIsReady) {
  Begin("workers: 2 strategy { mirrored {} } max_restarts: 1 elastic { on_loss: WAIT wait_seconds: 5 }");
  Vanish(Worker(1));
  Halted(0, 1, 0);
  Tick(1);
  EXPECT_THAT(Log(), ElementsAre("w0 halt"));
  JoinAgain(1);
  EXPECT_THAT(Log(), ElementsAre("w1 setup", "w0 form", "w1 form"));
}

TEST_F(MirroredGroupTest, JobEndsIfALostWorkerIsNotReplacedInTime) {
  Begin("workers: 2 strategy { mirrored {} } max_restarts: 1 elastic { on_loss: WAIT wait_seconds: 5 }");
  Vanish(Worker(1));
  Halted(0, 1, 0);
  for (int i = 0; i < 7; ++i) {
    Say(Worker(0), "heartbeat {}");
    Tick(1);
  }
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("within 5 s (elastic.wait_seconds)"));
}

TEST_F(MirroredGroupTest, JobWithFewerWorkersThanMinWorkersAndNoRestartsLeftEnds) {
  Begin("workers: 3 strategy { mirrored {} } elastic { min_workers: 3 }");
  Vanish(Worker(1));
  Halted(0, 1, 0);
  Halted(2, 1, 0);
  Tick(0.1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()),
              HasSubstr("2 workers are left, and the job needs 3 (elastic.min_workers); max_restarts (0) "
                        "allows no replacement"));
}

TEST_F(MirroredGroupTest, InterruptOfAJobThatWaitsForAReplacement_SavesWithTheRemainingWorkers) {
  Begin("workers: 3 strategy { mirrored {} } max_restarts: 1 elastic { on_loss: WAIT }");
  Record(0, 0, 0, 4);
  Vanish(Worker(1));
  Halted(0, 1, 1);
  Halted(2, 1, 1);
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w2 halt")) << "the job waits for a replacement";
  Interrupt();
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w2 form"));
  Formed(0, 2);
  Formed(2, 2);
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w2 run"));
  EXPECT_EQ(LastRun().begin(), LastRun().end()) << "no step is left";
  for (const int worker : {0, 2}) Say(Worker(worker), "run_done { run: 2 }");
  EXPECT_THAT(Log(), ElementsAre("open"));
  EXPECT_EQ(saved_state_.step(), 1);
}

TEST_F(MirroredGroupTest, WorkerLossEndsAJobWhoseWorkersAreAllOnGpus) {
  worker_devices_ = {proto::Device::CUDA, proto::Device::CUDA};
  Begin("workers: 2 strategy { mirrored {} }");
  Vanish(Worker(1));
  Tick(3);
  EXPECT_TRUE(absl::IsUnavailable(end_)) << end_;
  EXPECT_THAT(Log(), Not(Contains("w0 halt")));
}

TEST_F(MirroredGroupTest, EvaluationIsRepeatedByTheNextGroup) {
  Begin("workers: 2 strategy { mirrored {} }");
  Train(0, 1, {{0, 5}, {10, 15}});
  Train(1, 1, {{5, 10}, {15, 20}});
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate", "w1 evaluate"));
  Vanish(Worker(1));
  Halted(0, 1, 2);
  Formed(0, 2);
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w0 form", "w0 evaluate"));
}

TEST_F(MirroredGroupTest, SaveIsRepeatedByTheNextGroup) {
  Begin("workers: 2 strategy { mirrored {} }");
  Train(0, 1, {{0, 5}, {10, 15}});
  Train(1, 1, {{5, 10}, {15, 20}});
  FinishWell();
  SaveOpened(absl::OkStatus());
  Log();
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("abandon", "w0 halt"));
  Halted(0, 1, 2);
  Formed(0, 2);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "open"));
}

TEST_F(MirroredGroupTest, CommitOfACheckpointIsCompletedBeforeTheGroupIsHalted) {
  Begin("workers: 2 strategy { mirrored {} }");
  Train(0, 1, {{0, 5}, {10, 15}});
  Train(1, 1, {{5, 10}, {15, 20}});
  FinishWell();
  SaveOpened(absl::OkStatus());
  for (const int worker : {0, 1}) Say(Worker(worker), "save_done { id: 3 }");
  Log();
  Vanish(Worker(1));
  EXPECT_THAT(Log(), IsEmpty());
  SaveCommitted(absl::OkStatus());
  EXPECT_THAT(Log(), ElementsAre("w0 stop"));
}

TEST_F(MirroredGroupTest, InterruptDuringAHaltSavesTheStateOfTheNextGroup) {
  Begin();
  Vanish(Worker(1));
  Interrupt();
  Halted(0, 1, 1);
  Halted(2, 1, 1);
  Formed(0, 2);
  Formed(2, 2);
  EXPECT_EQ(LastRun().begin(), 10);
  EXPECT_EQ(LastRun().end(), 10);
  Log();
  for (const int worker : {0, 2}) Say(Worker(worker), "run_done { run: 2 }");
  EXPECT_THAT(Log(), ElementsAre("open"));
}

// After the loss, run 2 trains the rest of the segment. Pausing and Cut count steps from the beginning of run
// 2, not from the beginning of the segment.
TEST_F(MirroredGroupTest, PauseAfterAWorkerLossCutsTheRestOfTheSegment) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 1);
  Halted(2, 1, 1);
  Formed(0, 2);
  Formed(2, 2);
  Log();
  Interrupt();
  EXPECT_THAT(Log(), ElementsAre("w0 pause", "w2 pause"));
  for (const int worker : {0, 2}) Say(Worker(worker), "pausing { run: 2 steps: 1 }");
  EXPECT_THAT(Log(), ElementsAre("w0 cut", "w2 cut"));
  EXPECT_EQ(Last(proto::ToTask::kCut).order.cut().steps(), 1);
}

TEST_F(MirroredGroupTest, SilentWorkerThatAloneHasTheParametersIsWaitedFor) {
  Begin("workers: 2 strategy { mirrored {} } max_restarts: 2");
  Vanish(Worker(1));
  Halted(0, 1, 1);
  Formed(0, 2);
  for (int i = 0; i < 200; ++i) Tick(0.1);
  EXPECT_TRUE(end_.ok()) << end_;
  for (int i = 0; i < 40; ++i) Tick(0.1);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("no other worker has the parameters"));
}

TEST_F(MirroredGroupTest, WorkerThatDoesNotLeaveItsGroupInTimeCountsAsLost) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 0);
  for (int i = 0; i < 32; ++i) {
    for (const int worker : {0, 2}) Say(Worker(worker), "heartbeat {}");
    Tick(1);
  }
  EXPECT_THAT(journal_, HasSubstr("lost worker 2 it did not leave its group within 30 s"));
}

TEST_F(MirroredGroupTest, JobOnGpusEndsAtItsFirstWorkerLoss) {
  Begin("workers: 2 strategy { mirrored {} } device { kind: CUDA }");
  Say(Worker(0), "halted { generation: 1 applied: 0 reason: 'the ring broke' }");
  Vanish(Worker(1));
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 1"));
}

}  // namespace
}  // namespace tethys
