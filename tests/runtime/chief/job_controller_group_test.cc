// Jobs whose workers form new groups: losses, replacements, exchanges that fail, and what is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/chief/job_controller_fixture.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kThree[] = "workers: 3 strategy { mirrored {} } max_restarts: 2";
constexpr char kOnServers[] = "workers: 2 strategy { parameter_server { servers: 2 } } max_restarts: 2";

class GroupTest : public JobControllerTest {
 protected:
  // Brings the job to its first segment, of two steps of ten samples.
  void Begin(const std::string& job = kThree) {
    StartAndMakeReady(job);
    Log();
    orders_.clear();
    journal_.clear();
  }
  void SayAs(uint32_t incarnation, TaskId task, const std::string& text) {
    incarnation_ = incarnation;
    Say(task, text);
    incarnation_ = 1;
  }
  // A worker records its part of a step: of ten samples, or of the rest if it is one of two.
  void Record(int worker, int64_t step, int64_t begin, int64_t end) {
    Say(Worker(worker), absl::StrCat("steps { record { rank: ", worker, " step: ", step, " sample_begin: ",
                                     begin, " samples: ", end - begin, " labels: ", end - begin, " } }"));
  }
  void Halted(int worker, uint32_t generation, int64_t applied) {
    Halted(Worker(worker), generation, applied);
  }
  void Halted(TaskId task, uint32_t generation, int64_t applied) {
    Say(task, absl::StrCat("halted { generation: ", generation, " applied: ", applied, " }"));
  }
  void Formed(int worker, uint32_t generation) { Formed(Worker(worker), generation); }
  void Formed(TaskId task, uint32_t generation) {
    Say(task, absl::StrCat("formed { generation: ", generation, " }"));
  }
  // A server has applied a worker's push of step `version` - 1.
  void Applied(int server, int worker, int64_t begin, int64_t count, int64_t version) {
    Say(Server(server),
        absl::StrCat("applied { push { worker: ", worker, " sequence: ", version, " sample_begin: ", begin,
                     " sample_count: ", count, " version: ", version, " } }"));
  }
  void JoinAgain(int worker) {
    ASSERT_TRUE(controller_->Admit(Worker(worker), 2, now_).ok());
    SayAs(2, Worker(worker), "join { host: 'b' }");
    SayAs(2, Worker(worker), "ready {}");
  }
  proto::RunSummary Summary() const {
    proto::RunSummary summary;
    controller_->FillSummary(now_, summary);
    return summary;
  }
  const proto::Form& LastForm() const { return Last(proto::ToTask::kForm).order.form(); }
  const proto::Run& LastRun() const { return Last(proto::ToTask::kRun).order.run(); }
};

TEST_F(GroupTest, RemainingWorkersContinueFromTheNewestStepAfterALoss) {
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

TEST_F(GroupTest, WorkerThatLacksTheNewestStepCopiesItsParameters) {
  Begin();
  Vanish(Worker(2));
  Halted(0, 1, 0);
  Halted(1, 1, 1);
  EXPECT_EQ(LastForm().step(), 1);
  EXPECT_EQ(LastForm().source(), 1);
  EXPECT_THAT(LastForm().behind(), ElementsAre(0));
}

TEST_F(GroupTest, StepCountsOnceEveryWorkerOfTheGroupHasRecordedIt) {
  Begin();
  Record(0, 0, 0, 4);
  Record(1, 0, 4, 7);
  EXPECT_THAT(journal_, Not(HasSubstr("used")));
  Record(2, 0, 7, 10);
  EXPECT_THAT(journal_, HasSubstr("used 0 0 0 4\nused 1 0 4 3\nused 2 0 7 3\n"));
}

TEST_F(GroupTest, StepThatANewGroupContinuesFromCountsWithoutTheLostWorkersRecord) {
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

// The only worker with the step dies while another copies it.
TEST_F(GroupTest, StepWhoseParametersAreLostIsRepeatedAndCountsOnce) {
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

TEST_F(GroupTest, HaltDoesNotWaitForALostWorker) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 0);
  Log();
  Vanish(Worker(2));
  EXPECT_THAT(Log(), ElementsAre("w0 form"));
}

TEST_F(GroupTest, FailedExchangeOfOneWorkerHaltsTheOtherWorkers) {
  Begin();
  Say(Worker(1), "halted { generation: 1 applied: 0 suspect: 2 reason: 'the ring broke' }");
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w2 halt"));
  Halted(0, 1, 0);
  Halted(2, 1, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w1 form", "w2 form"));
}

TEST_F(GroupTest, WorkerBlamedTwiceWithoutAStepBetweenCountsAsLost) {
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

TEST_F(GroupTest, ReplacementJoinsTheGroupWithACopyOfTheState) {
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

// A replacement without a copy has no count of steps, and no worker goes on from its initial values.
TEST_F(GroupTest, JobEndsIfNoWorkerHasTheParametersAnyMore) {
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

TEST_F(GroupTest, AnswerOfAnEarlierGroupHasNoEffect) {
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

TEST_F(GroupTest, WorkerThatReportsAnImpossibleNumberOfStepsCountsAsLost) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 3);
  EXPECT_THAT(journal_, HasSubstr("lost worker 0 it has the parameters of 3 steps"));
  Log();
  Halted(2, 1, 0);
  EXPECT_THAT(Log(), ElementsAre("w2 form"));
}

TEST_F(GroupTest, JobThatWaitsAfterALossFormsAGroupOnceTheReplacementIsReady) {
  Begin("workers: 2 strategy { mirrored {} } max_restarts: 1 elastic { on_loss: WAIT wait_seconds: 5 }");
  Vanish(Worker(1));
  Halted(0, 1, 0);
  Tick(1);
  EXPECT_THAT(Log(), ElementsAre("w0 halt"));
  JoinAgain(1);
  EXPECT_THAT(Log(), ElementsAre("w1 setup", "w0 form", "w1 form"));
}

TEST_F(GroupTest, JobEndsIfALostWorkerIsNotReplacedInTime) {
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

TEST_F(GroupTest, JobWithFewerWorkersThanMinWorkersAndNoRestartsLeftEnds) {
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

TEST_F(GroupTest, InterruptOfAJobThatWaitsForAReplacement_SavesWithTheRemainingWorkers) {
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

TEST_F(GroupTest, LossInAJobWithAWorkerOnAGpuEndsTheJob) {
  worker_devices_ = {proto::Device::CPU, proto::Device::CUDA};
  Begin("workers: 2 strategy { mirrored {} }");
  Vanish(Worker(1));
  Tick(3);
  EXPECT_TRUE(absl::IsUnavailable(end_)) << end_;
  EXPECT_THAT(Log(), Not(Contains("w0 halt")));
}

TEST_F(GroupTest, EvaluationIsRepeatedByTheNextGroup) {
  Begin("workers: 2 strategy { mirrored {} }");
  Train(0, 1, {{0, 5}, {10, 15}});
  Train(1, 1, {{5, 10}, {15, 20}});
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate", "w1 evaluate"));
  Vanish(Worker(1));
  Halted(0, 1, 2);
  Formed(0, 2);
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w0 form", "w0 evaluate"));
}

TEST_F(GroupTest, SaveIsRepeatedByTheNextGroup) {
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

TEST_F(GroupTest, CommitOfACheckpointIsCompletedBeforeTheGroupIsHalted) {
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

TEST_F(GroupTest, InterruptDuringAHaltSavesTheStateOfTheNextGroup) {
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

// The second segment begins at its first step again: the pause counts the steps of the run.
TEST_F(GroupTest, PauseAfterALossCutsTheRestOfTheSegment) {
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

TEST_F(GroupTest, SilentWorkerThatAloneHasTheParametersIsWaitedFor) {
  Begin("workers: 2 strategy { mirrored {} } max_restarts: 2");
  Vanish(Worker(1));
  Halted(0, 1, 1);
  Formed(0, 2);
  for (int i = 0; i < 25; ++i) Tick(1);
  EXPECT_TRUE(end_.ok()) << end_;
  for (int i = 0; i < 10; ++i) Tick(1);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("no other worker has the parameters"));
}

TEST_F(GroupTest, WorkerThatDoesNotLeaveItsGroupInTimeCountsAsLost) {
  Begin();
  Vanish(Worker(1));
  Halted(0, 1, 0);
  for (int i = 0; i < 32; ++i) {
    for (const int worker : {0, 2}) Say(Worker(worker), "heartbeat {}");
    Tick(1);
  }
  EXPECT_THAT(journal_, HasSubstr("lost worker 2 it did not leave its group within 30 s"));
}

TEST_F(GroupTest, JobsOnGpusEndAtTheirFirstLoss) {
  Begin("workers: 2 strategy { mirrored {} } device { kind: CUDA }");
  Say(Worker(0), "halted { generation: 1 applied: 0 reason: 'the ring broke' }");
  Vanish(Worker(1));
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 1"));
}

// ------------------------------------------------------------------------------------------ with servers

TEST_F(GroupTest, GroupWithServersContinuesFromTheFewestStepsOfAServer) {
  Begin(kOnServers);
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "p0 halt", "p1 halt"));
  Halted(0, 1, 0);
  Halted(Server(0), 1, 1);
  EXPECT_THAT(Log(), IsEmpty());
  Halted(Server(1), 1, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "p0 form", "p1 form"));
  EXPECT_EQ(LastForm().step(), 0);
  EXPECT_EQ(LastForm().group().member_size(), 3);
  EXPECT_THAT(LastForm().behind(), IsEmpty());
  Formed(0, 2);
  Formed(Server(0), 2);
  EXPECT_THAT(Log(), IsEmpty()) << "a server has not joined yet";
  Formed(Server(1), 2);
  EXPECT_THAT(Log(), ElementsAre("w0 run"));
  EXPECT_EQ(LastRun().first_step(), 0);
}

TEST_F(GroupTest, WorkerThatLacksTheStepOfAllServersIsBehindThem) {
  Begin(kOnServers);
  Vanish(Worker(1));
  Halted(0, 1, 0);
  for (const int server : {0, 1}) Halted(Server(server), 1, 1);
  EXPECT_EQ(LastForm().step(), 1);
  EXPECT_THAT(LastForm().behind(), ElementsAre(0));
}

TEST_F(GroupTest, PushesOfAStepThatIsTakenBackAreNotInTheJournal) {
  Begin(kOnServers);
  Applied(0, 0, 0, 5, 1);
  Applied(0, 1, 5, 5, 1);
  EXPECT_THAT(journal_, Not(HasSubstr("applied"))) << "no worker has recorded the step";
  Vanish(Worker(1));
  Halted(0, 1, 0);
  Halted(Server(0), 1, 1);
  Halted(Server(1), 1, 0);
  Formed(0, 2);
  for (const int server : {0, 1}) Formed(Server(server), 2);
  Record(0, 0, 0, 10);
  EXPECT_THAT(journal_, Not(HasSubstr("applied")));
  for (const int server : {0, 1}) Applied(server, 0, 0, 10, 1);
  EXPECT_THAT(journal_, HasSubstr("used 0 0 0 10\napplied 0 0 1 0 10 1\napplied 1 0 1 0 10 1\n"));
}

TEST_F(GroupTest, ReplacementInAJobWithServersReadsTheCheckpointAndJoinsTheServers) {
  Begin(kOnServers);
  Vanish(Worker(1));
  Halted(0, 1, 0);
  for (const int server : {0, 1}) Halted(Server(server), 1, 0);
  Formed(0, 2);
  for (const int server : {0, 1}) Formed(Server(server), 2);
  Log();
  JoinAgain(1);
  EXPECT_THAT(Log(), ElementsAre("w1 setup", "w0 halt", "p0 halt", "p1 halt"));
  Halted(0, 2, 0);
  for (const int server : {0, 1}) Halted(Server(server), 2, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w1 form", "p0 form", "p1 form"));
  EXPECT_THAT(LastForm().behind(), ElementsAre(1));
}

TEST_F(GroupTest, WorkerWhoseExchangeWithServersFailsTwiceCountsAsLost) {
  Begin(kOnServers);
  for (const uint32_t generation : {1, 2}) {
    Say(Worker(1), absl::StrCat("halted { generation: ", generation,
                                " applied: 0 suspect: 1 reason: 'cannot reach server 0' }"));
    Halted(0, generation, 0);
    for (const int server : {0, 1}) Halted(Server(server), generation, 0);
    for (const int worker : {0, 1}) Formed(worker, generation + 1);
    for (const int server : {0, 1}) Formed(Server(server), generation + 1);
  }
  EXPECT_THAT(journal_, HasSubstr("lost worker 1 exchanges with it failed 2 times in a row"));
}

TEST_F(GroupTest, OnlyWorkerIsNotGivenUpForItsFailedExchanges) {
  Begin("workers: 1 strategy { parameter_server { servers: 1 } }");
  for (const uint32_t generation : {1, 2, 3}) {
    Say(Worker(0), absl::StrCat("halted { generation: ", generation,
                                " applied: 0 suspect: 0 reason: 'cannot reach server 0' }"));
    Halted(Server(0), generation, 0);
    Formed(0, generation + 1);
    Formed(Server(0), generation + 1);
  }
  EXPECT_THAT(journal_, Not(HasSubstr("lost worker")));
}

TEST_F(GroupTest, LossOfAServerEndsTheJobWhileAGroupForms) {
  Begin(kOnServers);
  Vanish(Worker(1));
  Vanish(Server(1));
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost ps 1"));
}

TEST_F(GroupTest, LossOfTheOnlyWorkerEndsAJobWithServersWithoutReplacements) {
  Begin("workers: 1 strategy { parameter_server { servers: 1 } }");
  Vanish(Worker(0));
  Halted(Server(0), 1, 1);
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()),
              HasSubstr("0 workers are left, and the job needs 1; max_restarts"));
}

TEST_F(GroupTest, JobWithServersEndsAtItsFirstLossIfItSaysSo) {
  Begin("workers: 2 strategy { parameter_server { servers: 1 } } elastic { on_loss: END }");
  Vanish(Worker(1));
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 1"));
  EXPECT_THAT(Log(), Not(Contains("w0 halt")));
}

}  // namespace
}  // namespace tethys
