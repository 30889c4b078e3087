// Losses of workers at every point of a job, under strategies whose training survives such a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/runtime/chief/losses_fixture.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ------------------------------------------------------------------- settling a lost worker's batches

TEST_F(LossesTest, BatchesOfALostWorkerAreLeasedToOtherWorkers) {
  for (const char* job : {kAsynchronous, kStale}) {
    Begin(job);
    Vanish(Worker(1));
    EXPECT_THAT(Log(), ElementsAre("p0 fence")) << job;
    Fenced();
    UseAll(0);
    // A stale-synchronous job leases batches in rounds. All rounds have been leased, so the chief leases the
    // returned batches in a new run.
    if (absl::StrContains(job, "stale")) UseAll(0);
    EXPECT_THAT(Log(), Contains("w0 evaluate")) << job;
    EXPECT_THAT(journal_, HasSubstr("lost worker 1 its session ended\n"));
  }
}

TEST_F(LossesTest, ReplacementBeginsWithTheMeanStatistics) {
  statistics_.mean = {0, 1};
  job_epochs_ = 2;
  Begin(absl::StrCat(kAsynchronous, "max_restarts: 1"));
  UseAll(0, "steps: 3 statistics: [2, 2]");
  UseAll(1, "steps: 1 statistics: [6, 10]");
  for (const int worker : {0, 1}) {
    Say(Worker(worker), "evaluation_done { id: 1 samples: 1 labels: 1 correct: 1 loss_sum: 0.5 }");
  }
  EXPECT_THAT(Log(), Contains("w1 run"));
  Vanish(Worker(1));
  Fenced();
  JoinAgain();
  EXPECT_EQ(Last(proto::ToTask::kSetup).task, Worker(1));
  EXPECT_THAT(Last(proto::ToTask::kSetup).order.setup().statistics(), ElementsAre(3, 4));
}

TEST_F(LossesTest, BatchThatAServerAppliedForALostWorkerCountsAsUsed) {
  Begin(kAsynchronous);
  Applied(0, 1, 5);
  Vanish(Worker(1));
  Fenced();
  EXPECT_THAT(journal_, HasSubstr("used 1 0 5 5\n"));
  now_ += 2 * kSecond;
  UseAll(0);
  EXPECT_THAT(Log(), Contains("w0 evaluate"));
  EXPECT_EQ(Summary().worker_loss(0).batches_returned(), 0);
  EXPECT_EQ(Summary().worker_loss(0).unrecorded_samples(), 5);
  Say(Worker(0), "evaluation_done { id: 1 samples: 2 labels: 2 }");
  ASSERT_FALSE(epochs_.empty());
  EXPECT_EQ(epochs_[0].samples_per_second() * epochs_[0].train_seconds(), 20);
}

TEST_F(LossesTest, BatchOfALostWorkerAppliedByOneOfTwoServersIsRecordedAsTorn) {
  Begin("workers: 2 strategy { parameter_server { servers: 2 asynchronous {} } }");
  Applied(1, 1, 5);
  Vanish(Worker(1));
  Fenced();
  EXPECT_THAT(journal_, HasSubstr("torn 1 5 5 1\n"));
  const proto::WorkerLoss loss = Summary().worker_loss(0);
  ASSERT_EQ(loss.torn_size(), 1);
  EXPECT_EQ(loss.torn(0).begin(), 5);
  EXPECT_THAT(loss.torn(0).server(), ElementsAre(1));
}

TEST_F(LossesTest, SegmentEndsOnlyAfterServersHaveFencedTheLostWorker) {
  Begin(kAsynchronous);
  Use(1, 5);
  UseAll(0);
  Vanish(Worker(1));
  EXPECT_THAT(Log(), Not(Contains("w0 evaluate")));
  Fenced();
  EXPECT_THAT(Log(), Contains("w0 evaluate"));
}

TEST_F(LossesTest, UnusedBatchOfALostWorker_IsLeasedToAFinishedWorkerInAFurtherRun) {
  Begin(kAsynchronous);
  UseAll(0);
  Log();
  Vanish(Worker(1));  // Worker 1 held the batch [5, 10).
  Fenced();
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "w0 run", "w0 lease"));
  EXPECT_EQ(NewestLease(0).range(0).begin(), 5);
  UseAll(0);
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate"));
}

TEST_F(LossesTest, LastWorkerLostBySilence_MayBeReplacedUntilTheTimeout) {
  now_ = 1000 * kSecond;
  Begin("workers: 1 max_restarts: 1 strategy { parameter_server { asynchronous {} } } ");
  const auto wait = [this](int seconds) {
    for (int tenths = 0; tenths < 10 * seconds; ++tenths) {
      Say(Server(), "heartbeat {}");
      Tick(0.1);
    }
  };
  wait(50);
  EXPECT_THAT(Log(), ElementsAre("p0 fence"));
  wait(30);
  EXPECT_THAT(Log(), Contains("p0 stop"));
}

TEST_F(LossesTest, SilentWorkerCountsAsLostAndItsLaterMessagesAreIgnored) {
  Begin(kAsynchronous);
  for (int i = 0; i < 11; ++i) {
    Say(Worker(0), "heartbeat {}");
    Say(Server(), "heartbeat {}");
    Tick(1);
  }
  EXPECT_THAT(Log(), ElementsAre("p0 fence"));
  Use(1, 5);
  Say(Worker(1), absl::StrCat("failure { message: 'fenced' status_code: ",
                              static_cast<int>(absl::StatusCode::kFailedPrecondition), " }"));
  Vanish(Worker(1));
  Tick(0.1);
  EXPECT_THAT(Log(), IsEmpty());
  EXPECT_THAT(journal_, Not(HasSubstr("used 1")));
}

TEST_F(LossesTest, SilentWorkerIsLostSoonerWhileItCanBeReplaced) {
  Begin("workers: 4 max_restarts: 1 strategy { parameter_server { asynchronous {} } }");
  // The other tasks send heartbeats, `worker` is silent. Returns the seconds until it counts as lost.
  const auto lose = [&](std::vector<int> others) {
    for (int tenths = 1; tenths < 150; ++tenths) {
      Say(Server(), "heartbeat {}");
      for (const int other : others) Say(Worker(other), "heartbeat {}");
      Tick(0.1);
      for (const std::string& action : Log()) {
        if (action == "p0 fence") return tenths / 10.0;
      }
    }
    return 0.0;
  };
  EXPECT_NEAR(lose({0, 1, 2}), 1, 0.2);
  EXPECT_NEAR(lose({0, 1}), 10, 0.3) << "no restart is left";
}

TEST_F(LossesTest, MostWorkersThatFallSilentTogether_AreNotLostAtOnce) {
  Begin("workers: 3 max_restarts: 5 strategy { parameter_server { asynchronous {} } }");
  for (int tenths = 1; tenths < 50; ++tenths) {
    Say(Server(), "heartbeat {}");
    Say(Worker(0), "heartbeat {}");
    Tick(0.1);
  }
  EXPECT_THAT(Log(), Not(Contains("p0 fence"))) << "the chief may be the one that is cut off";
  for (int tenths = 1; tenths < 150; ++tenths) {
    Say(Server(), "heartbeat {}");
    Say(Worker(0), "heartbeat {}");
    Tick(0.1);
  }
  EXPECT_THAT(Log(), Contains("p0 fence"));
}

// ---------------------------------------------------------------- losses before, between and after segments

TEST_F(LossesTest, WorkerLostBeforeAllJoined_MakesJobWaitForReplacement) {
  Start(absl::StrCat(kAsynchronous, " max_restarts: 1"));
  Say(Worker(1), "join {}");
  Vanish(Worker(1));
  JoinAgain();
  EXPECT_THAT(Log(), IsEmpty());
  Say(Worker(0), "join {}");
  Say(Server(), "join {}");
  EXPECT_THAT(Log(), ElementsAre("p0 setup", "p0 form"));
  BeReady(Server());
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w0 form", "w1 setup", "w1 form"));
}

TEST_F(LossesTest, WorkerLostDuringServerSetup_IsFencedOnceServersAreReady) {
  Start(kStale);
  for (const TaskId task : {Worker(0), Worker(1), Server()}) Say(task, "join {}");
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("p0 setup", "p0 form"));
  BeReady(Server());
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w0 form", "p0 fence")) << "the server would wait for worker 1";
  BeReady(Worker(0));
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w0 lease"));
}

TEST_F(LossesTest, WorkerLostDuringSetup_DoesNotKeepOtherWorkersFromTraining) {
  Start(kAsynchronous);
  for (const TaskId task : {Worker(0), Worker(1), Server()}) Say(task, "join {}");
  BeReady(Server());
  BeReady(Worker(0));
  Log();
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "w0 run", "w0 lease"));
}

TEST_F(LossesTest, WorkerLostAfterItsLastBatch_DelaysEvaluationUntilFenced) {
  Begin(kAsynchronous);
  Use(1, 5);
  UseAll(0);
  Log();
  Vanish(Worker(1));
  Fenced();
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "w0 evaluate"));
  EXPECT_EQ(orders_.back().order.evaluate().end(), 2);
}

TEST_F(LossesTest, EvaluationDuringWhichAWorkerIsLost_IsRepeatedByOtherWorkers) {
  Begin(kAsynchronous);
  Use(1, 5);
  Say(Worker(1), "run_done { run: 1 }");
  UseAll(0);
  Log();
  Say(Worker(0), "evaluation_done { id: 1 samples: 1 labels: 1 correct: 1 }");
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "w0 evaluate"));
  EXPECT_EQ(orders_.back().order.evaluate().end(), 2) << "both samples";
  Say(Worker(0), "evaluation_done { id: 2 samples: 2 labels: 2 correct: 1 }");
  ASSERT_EQ(epochs_.size(), 1u);
  EXPECT_EQ(epochs_[0].validation_accuracy(), 0.5);
}

// The only worker is lost while the server is saving, so the evaluation begins without workers.
TEST_F(LossesTest, EvaluationWithoutWorkersWaitsForReplacement) {
  Begin(
      "workers: 1 max_restarts: 1 strategy { parameter_server { asynchronous {} } } "
      "checkpoint { every_epochs: 1 }");
  UseAll(0);
  Say(Worker(0), "evaluation_done { id: 1 samples: 2 labels: 2 correct: 1 }");
  SaveOpened(absl::OkStatus());
  Vanish(Worker(0));
  Say(Server(), "save_done { id: 2 }");
  SaveCommitted(absl::OkStatus());
  Log();
  Fenced(false, 0);
  ASSERT_TRUE(controller_->Admit(Worker(0), 2, now_).ok());
  SayAs(2, Worker(0), "join {}");
  SayAs(2, Worker(0), "ready {}");
  SayAs(2, Worker(0), "formed { generation: 1 }");
  Fenced(true, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w0 form", "p0 fence", "w0 evaluate"));
  EXPECT_EQ(Summary().test().samples(), 0) << "nothing is evaluated yet";
  SayAs(2, Worker(0), "evaluation_done { id: 4 samples: 4 labels: 4 correct: 3 }");
  EXPECT_EQ(Summary().test().accuracy(), 0.75);
}

TEST_F(LossesTest, WorkerLostDuringSave_DoesNotStopSave) {
  Begin(absl::StrCat(kAsynchronous, " checkpoint { every_epochs: 1 }"));
  Use(1, 5);
  Say(Worker(1), "run_done { run: 1 }");
  UseAll(0);
  for (int i = 0; i < 2; ++i) Say(Worker(i), "evaluation_done { id: 1 samples: 1 labels: 1 }");
  SaveOpened(absl::OkStatus());
  Log();
  Vanish(Worker(1));
  Say(Server(), "save_done { id: 2 }");
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "commit"));
}

// ---------------------------------------------------------------------------------------- reported failures

TEST_F(LossesTest, WorkerThatReportsItsOwnFailure_CountsAsLostAndTheJobContinues) {
  using Code = absl::StatusCode;
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kResourceExhausted,
                          Code::kInternal, Code::kUnknown, Code::kDataLoss}) {
    Begin(absl::StrCat(kAsynchronous, " max_restarts: 1"));
    Report(Worker(1), code);
    Vanish(Worker(1));
    EXPECT_THAT(Log(), IsEmpty()) << "the report may follow from a server's loss";
    Tick(0.6);
    EXPECT_THAT(Log(), ElementsAre("p0 fence"));
    EXPECT_THAT(journal_, HasSubstr("lost worker 1 it broke\n"));
    JoinAgain();
    Fenced();
    EXPECT_THAT(Log(), ElementsAre("w1 setup", "w1 form"));
    journal_.clear();
  }
}

TEST_F(LossesTest, WorkerFailureThatEveryWorkerWouldRepeat_EndsJob) {
  using Code = absl::StatusCode;
  for (const Code code : {Code::kInvalidArgument, Code::kFailedPrecondition, Code::kOutOfRange,
                          Code::kNotFound, Code::kPermissionDenied, Code::kUnimplemented}) {
    Begin(absl::StrCat(kAsynchronous, " max_restarts: 1"));
    Report(Worker(1), code);
    Vanish(Worker(1));
    Tick(0.1);
    EXPECT_THAT(Log(), ElementsAre("w0 stop", "p0 stop")) << absl::StatusCodeToString(code);
  }
}

TEST_F(LossesTest, FailureReportedBeforeTraining_EndsJob) {
  Start(absl::StrCat(kAsynchronous, " max_restarts: 1"));
  for (const TaskId task : {Worker(0), Worker(1), Server()}) Say(task, "join {}");
  Report(Worker(1), absl::StatusCode::kResourceExhausted);
  Tick(0.6);
  EXPECT_THAT(Log(), Contains("w0 stop"));
}

TEST_F(LossesTest, WorkersThatFailBecauseAServerIsLost_AreNotCountedAsLost) {
  Begin(absl::StrCat(kAsynchronous, " max_restarts: 2"));
  for (const int worker : {0, 1}) {
    Report(Worker(worker), absl::StatusCode::kUnavailable);
    Vanish(Worker(worker));
  }
  Tick(0.2);
  Vanish(Server());
  Tick(3);
  EXPECT_EQ(culprit_, Server());
  EXPECT_EQ(Summary().worker_loss_size(), 0);
}

TEST_F(LossesTest, FailureReportFollowedByAReplacement_CountsAsOneLoss) {
  Begin(absl::StrCat(kAsynchronous, " max_restarts: 1"));
  Report(Worker(1), absl::StatusCode::kInternal);
  JoinAgain();
  EXPECT_THAT(journal_, HasSubstr("lost worker 1 it broke\n"));
  Tick(1);
  EXPECT_EQ(Summary().worker_loss_size(), 1);
}

// ------------------------------------------------------------------ loss of the last worker or of a server

TEST_F(LossesTest, LossOfLastWorkerEndsJobAndSaysWhy) {
  Begin("workers: 1 strategy { parameter_server { asynchronous {} } }");
  Vanish(Worker(0));
  Tick(3);
  EXPECT_EQ(culprit_, Worker(0));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 0"));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("no worker is left"));
}

TEST_F(LossesTest, ReplacementOfLastWorkerIsAwaitedUntilTimeout) {
  Begin("workers: 1 max_restarts: 1 strategy { parameter_server { asynchronous {} } }");
  Vanish(Worker(0));
  for (int i = 0; i < 59; ++i) {
    Say(Server(), "heartbeat {}");
    Tick(1);
  }
  EXPECT_THAT(Log(), ElementsAre("p0 fence"));
  Tick(2);
  EXPECT_THAT(Log(), ElementsAre("p0 stop"));
}

TEST_F(LossesTest, JobThatLosesItsLastWorker_WaitsForReplacementOfAnEarlierLostWorker) {
  Begin(absl::StrCat(kAsynchronous, "max_restarts: 1"));
  Vanish(Worker(1));
  Vanish(Worker(0));
  Tick(1);
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "p0 fence"));
  Fenced(false, 1);
  Fenced(false, 0);
  JoinAgain();
  SayAs(2, Worker(1), "ready {}");
  SayAs(2, Worker(1), "formed { generation: 1 }");
  Fenced(true, 1);
  EXPECT_THAT(Log(), ElementsAre("w1 setup", "w1 form", "p0 fence", "w1 run", "w1 lease"));
}

TEST_F(LossesTest, NewProcessThatHasJoinedReplacesTheLastWorkerEvenIfMaxRestartsIsZero) {
  Begin(kAsynchronous);
  Vanish(Worker(0));
  JoinAgain();
  Tick(1);
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "p0 fence")) << "its session had not ended yet";
  Fenced(false, 1);
  EXPECT_THAT(Log(), ElementsAre("w1 setup", "w1 form"));
}

TEST_F(LossesTest, ReplacementOfTheOnlyWorkerIsSetUpAndTrains) {
  Begin("workers: 1 max_restarts: 1 strategy { parameter_server { stale_synchronous {} } }");
  Vanish(Worker(0));
  Fenced(false, 0);
  ASSERT_TRUE(controller_->Admit(Worker(0), 2, now_).ok());
  incarnation_ = 2;
  Say(Worker(0), "join {}");
  BeReady(Worker(0));
  Fenced(true, 0);
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "w0 setup", "w0 form", "p0 fence", "w0 run", "w0 lease"));
}

TEST_F(LossesTest, WorkersThatLeaveAFailedJobAreNotCountedAsLost) {
  Begin(kAsynchronous);
  Report(Server(), absl::StatusCode::kDeadlineExceeded);
  Vanish(Worker(0));
  Vanish(Worker(1));
  EXPECT_THAT(Log(), IsEmpty());
  Tick(1);
  EXPECT_EQ(Summary().worker_loss_size(), 0);
  Tick(3);
  EXPECT_EQ(culprit_, Server());
}

TEST_F(LossesTest, LostServerEndsJob) {
  Begin(kAsynchronous);
  Vanish(Server());
  EXPECT_THAT(Log(), ElementsAre("w0 stop", "w1 stop"));
}

}  // namespace
}  // namespace tethys
