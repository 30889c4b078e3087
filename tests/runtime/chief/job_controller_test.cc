#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/chief/job_controller_fixture.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(JobControllerTest, MirroredJobIsOrderedToTrainEvaluateSaveAndStop) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w0 form", "w1 setup", "w1 form", "w0 run", "w1 run"));
  Train(0, 1, {{0, 5}, {10, 15}});
  EXPECT_THAT(Log(), IsEmpty());
  Train(1, 1, {{5, 10}, {15, 20}});
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate", "w1 evaluate"));
  FinishWell();
  ASSERT_EQ(epochs_.size(), 1u);
  EXPECT_DOUBLE_EQ(epochs_[0].train_accuracy(), 4.0 / 20);
  EXPECT_DOUBLE_EQ(epochs_[0].validation_accuracy(), 1);
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate", "w1 evaluate", "open"));
  SaveOpened(absl::OkStatus());
  EXPECT_THAT(Log(), ElementsAre("w0 save", "w1 save"));
  Say(Worker(0), "save_done { id: 3 }");
  Say(Worker(1), "save_done { id: 3 }");
  EXPECT_THAT(Log(), ElementsAre("commit"));
  SaveCommitted(absl::OkStatus());
  EXPECT_THAT(Log(), ElementsAre("w0 stop", "w1 stop"));
  Vanish(Worker(0));
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("end OK"));
}

TEST_F(JobControllerTest, ServersAreSetUpFirstAndSaveInsteadOfWorkers) {
  StartAndMakeReady("workers: 1 strategy { parameter_server { bulk_synchronous {} } }");
  EXPECT_THAT(Log(), ElementsAre("p0 setup", "p0 form", "w0 setup", "w0 form", "w0 run"));
  Train(0, 1, {{0, 10}, {10, 20}});
  FinishWell();
  Log();
  SaveOpened(absl::OkStatus());
  EXPECT_THAT(Log(), ElementsAre("p0 save"));
}

TEST_F(JobControllerTest, WayOfExchangingGradientsIsReportedOnceAllWorkersAreReady) {
  Start("workers: 2 strategy { mirrored {} }");
  for (const int worker : {0, 1}) Say(Worker(worker), "join {}");
  Say(Worker(0), "ready {}");
  Say(Worker(0), "formed { generation: 1 exchange: 'a ring: rank 1 on the CPU' }");
  EXPECT_THAT(notes_, ::testing::IsEmpty());
  Say(Worker(1), "ready {}");
  Say(Worker(1), "formed { generation: 1 exchange: 'a ring: rank 1 on the CPU' }");
  EXPECT_THAT(notes_, ElementsAre("gradients are exchanged by a ring: rank 1 on the CPU"));
}

TEST_F(JobControllerTest, JobWithOneWorkerReportsNoGradientExchange) {
  Start("workers: 1 strategy { mirrored {} }");
  Say(Worker(0), "join {}");
  Say(Worker(0), "ready {}");
  Say(Worker(0), "formed { generation: 1 exchange: 'TCP: one worker exchanges nothing' }");
  EXPECT_THAT(notes_, ::testing::IsEmpty());
}

TEST_F(JobControllerTest, AsynchronousWorkersGetLeasesAtStartAndOnRequest) {
  StartAndMakeReady("workers: 2 strategy { parameter_server { asynchronous {} } }");
  EXPECT_THAT(Log(), ElementsAre("p0 setup", "p0 form", "w0 setup", "w0 form", "w1 setup", "w1 form",
                                 "w0 run", "w0 lease", "w1 run", "w1 lease"));
  Say(Worker(0), "lease_request { batches: 4 }");
  EXPECT_THAT(Log(), ElementsAre("w0 lease"));
}

TEST_F(JobControllerTest, UseOfSamplesLeasedToAnotherWorkerEndsTheJob) {
  StartAndMakeReady("workers: 2 strategy { parameter_server { asynchronous {} } }");
  Log();
  Say(Worker(1), "steps { record { rank: 1 sample_begin: 0 samples: 5 } }");
  Tick(0.1);
  EXPECT_THAT(Log(), ElementsAre("w0 stop", "w1 stop", "p0 stop"));
}

TEST_F(JobControllerTest, SegmentWithUnusedSampleEndsJob) {
  StartAndMakeReady("workers: 1 strategy { local {} }");
  Train(0, 1, {{0, 10}});
  Tick(0.1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("position 10 of epoch 0"));
}

TEST_F(JobControllerTest, ImpossibleStepRecordEndsJob) {
  for (const char* numbers : {"samples: 5 labels: 5 correct: 6", "samples: -1 correct: -1", "step: -1",
                              "total_ns: 9223372036854775807", "samples: 9223372036854775807"}) {
    StartAndMakeReady("workers: 1 strategy { local {} }");
    Say(Worker(0), absl::StrCat("steps { record { ", numbers, " } }"));
    Tick(0.1);
    Tick(3);
    EXPECT_THAT(std::string(end_.message()), HasSubstr("worker 0: no step can have this record")) << numbers;
  }
}

TEST_F(JobControllerTest, ImpossibleEvaluationEndsJob) {
  StartAndMakeReady("workers: 1 strategy { local {} }");
  Train(0, 1, {{0, 10}, {10, 20}});
  Say(Worker(0), "evaluation_done { id: 1 samples: 3 labels: 3 correct: 1 }");
  Tick(0.1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()),
              HasSubstr("worker 0: it was asked to evaluate 2 samples, but reports"));
}

TEST_F(JobControllerTest, LostTaskEndsJobAndIsNamed) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} } device { kind: CUDA }");
  Log();
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("w0 stop"));
  Tick(3);
  EXPECT_THAT(Log(), ElementsAre("end UNAVAILABLE"));
  EXPECT_EQ(culprit_, Worker(1));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 1"));
}

TEST_F(JobControllerTest, PeerReportedAsLostIsTheCulpritIfItsSessionEnds) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} } device { kind: CUDA }");
  Log();
  Say(Worker(0), absl::StrCat("failure { message: 'lost worker 1' status_code: ",
                              static_cast<int>(absl::StatusCode::kUnavailable), " }"));
  Tick(0.2);
  EXPECT_THAT(Log(), IsEmpty());
  Vanish(Worker(1));
  Tick(3);
  EXPECT_EQ(culprit_, Worker(1));
}

TEST_F(JobControllerTest, WorkersThatReportALostPeerAndLeaveAreNotCulprits) {
  StartAndMakeReady("workers: 3 strategy { mirrored {} } device { kind: CUDA }");
  for (const int worker : {2, 0}) {
    Say(Worker(worker), absl::StrCat("failure { message: 'lost worker 1' status_code: ",
                                     static_cast<int>(absl::StatusCode::kUnavailable), " }"));
    Vanish(Worker(worker));
  }
  Tick(0.2);
  Vanish(Worker(1));
  Tick(3);
  EXPECT_EQ(culprit_, Worker(1));
}

TEST_F(JobControllerTest, ReportedTimeoutWithoutAnotherFailureEndsJob) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} } device { kind: CUDA }");
  Say(Worker(0), absl::StrCat("failure { message: 'no progress' status_code: ",
                              static_cast<int>(absl::StatusCode::kDeadlineExceeded), " }"));
  Tick(1);
  Tick(3);
  EXPECT_EQ(culprit_, Worker(0));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("no progress"));
}

TEST_F(JobControllerTest, SilentTaskCountsAsLost) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} } device { kind: CUDA }");
  for (int i = 0; i < 11; ++i) {
    Say(Worker(0), "heartbeat {}");
    Tick(1);
  }
  Tick(3);
  EXPECT_EQ(culprit_, Worker(1));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("silent for 10 s"));
}

TEST_F(JobControllerTest, ChiefThatStalledForAMinuteLosesNoTask) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Tick(0.1);
  Tick(60);
  Tick(0.1);
  EXPECT_TRUE(end_.ok()) << end_;
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w0 form", "w1 setup", "w1 form", "w0 run", "w1 run"));
}

TEST_F(JobControllerTest, ErrorOfTheStartTimeoutNamesTheTaskThatNeverJoined) {
  Start("workers: 2 strategy { mirrored {} }");
  Say(Worker(0), "join {}");
  for (int i = 0; i < 61; ++i) {
    Say(Worker(0), "heartbeat {}");
    Say(Worker(1), "heartbeat {}");
    Tick(1);
  }
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("timeouts.start): worker 1"));
}

// The first member on a machine samples the machine's resources, except on the chief's machine.
TEST_F(JobControllerTest, SetupOrderTellsTheFirstTaskOnEachHostThatItIsTheFirst) {
  Start("workers: 3 strategy { mirrored {} }");
  for (int worker : {0, 1}) Say(Worker(worker), "join { host: 'a' }");
  Say(Worker(2), "join { host: 'b' }");
  std::vector<std::string> first;
  for (const SendOrder& sent : orders_) {
    if (!sent.order.setup().first_on_host()) continue;
    EXPECT_EQ(sent.order.setup().self().index(), sent.task.index);
    first.push_back(absl::StrCat(sent.task.index, " on ", sent.order.setup().self().host()));
  }
  EXPECT_THAT(first, ElementsAre("0 on a", "2 on b"));
  EXPECT_EQ(Last(proto::ToTask::kForm).order.form().group().member_size(), 3);
}

// Workers that wait for one another give up at the start timeout, with errors that say whom they waited for.
// The chief waits a little longer in order to receive these errors.
TEST_F(JobControllerTest, StartTimeoutLeavesTasksTimeToReportTheirMissingPeers) {
  Start("workers: 2 strategy { mirrored {} }");
  now_ += 20 * kSecond;
  for (int worker : {0, 1}) Say(Worker(worker), absl::StrCat("join { host: 'h", worker, "' }"));
  EXPECT_EQ(Last(proto::ToTask::kSetup).order.setup().seconds_left(), 40);
  for (int second = 0; second < 41; ++second) {
    for (int worker : {0, 1}) Say(Worker(worker), "heartbeat {}");
    Tick(1);
  }
  ASSERT_TRUE(end_.ok()) << end_;
  Say(Worker(1), absl::StrCat("failure { message: 'waited for worker 0' status_code: ",
                              static_cast<int>(absl::StatusCode::kDeadlineExceeded), " }"));
  for (int i = 0; i < 6; ++i) Tick(0.6);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("worker 1 on h1: waited for worker 0"));
}

TEST_F(JobControllerTest, UnreadyTaskThatReportsNothing_IsNamedInTheStartTimeoutError) {
  Start("workers: 1 strategy { local {} }");
  Say(Worker(0), "join { host: 'h' }");
  for (int second = 0; second < 66; ++second) {
    Say(Worker(0), "heartbeat {}");
    Tick(1);
  }
  EXPECT_EQ(culprit_, Worker(0));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("timeouts.start): worker 0 on h; each had joined"));
}

TEST_F(JobControllerTest, ReadyTasksThatFellSilent_AreNamedInTheStartTimeoutError) {
  Start("workers: 3 strategy { parameter_server { asynchronous {} } }");
  Say(Server(), "join { host: 'h' }");
  for (int worker : {0, 1, 2}) Say(Worker(worker), absl::StrCat("join { host: 'h", worker, "' }"));
  Say(Server(), "ready {}");
  Say(Server(), "formed { generation: 1 }");
  for (int worker : {0, 1, 2}) Say(Worker(worker), "ready {}");
  Say(Worker(1), "formed { generation: 1 }");
  for (int second = 0; second < 66; ++second) {
    Say(Server(), "heartbeat {}");
    for (int worker : {0, 1, 2}) {
      if (worker == 1 || second < 50) Say(Worker(worker), "heartbeat {}");
    }
    Tick(1);
  }
  EXPECT_THAT(std::string(end_.message()),
              HasSubstr("timeouts.start): worker 0 on h0, worker 2 on h2; each had joined"));
}

TEST_F(JobControllerTest, ReportOfATaskAfterTheStartTimeout_IsTheErrorOfTheJob) {
  Start("workers: 2 strategy { mirrored {} }");
  for (int worker : {0, 1}) Say(Worker(worker), absl::StrCat("join { host: 'h", worker, "' }"));
  for (int second = 0; second < 62; ++second) {
    for (int worker : {0, 1}) Say(Worker(worker), "heartbeat {}");
    Tick(1);
  }
  Tick(0.9);
  Say(Worker(1), absl::StrCat("failure { message: 'waited for worker 0' status_code: ",
                              static_cast<int>(absl::StatusCode::kDeadlineExceeded), " }"));
  for (int i = 0; i < 6; ++i) Tick(0.3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("worker 1 on h1: waited for worker 0"));
}

TEST_F(JobControllerTest, ServerThatIsNotReady_IsNamedWithoutTheWorkersThatWait) {
  Start("workers: 1 strategy { parameter_server { bulk_synchronous {} } }");
  for (const TaskId task : {Worker(0), Server()}) Say(task, "join { host: 'h' }");
  for (int second = 0; second < 66; ++second) {
    for (const TaskId task : {Worker(0), Server()}) Say(task, "heartbeat {}");
    Tick(1);
  }
  EXPECT_EQ(culprit_, Server());
  EXPECT_THAT(std::string(end_.message()), HasSubstr("timeouts.start): ps 0 on h; each had joined"));
}

TEST_F(JobControllerTest, TaskThatIsUnknownOrAlreadyAdmittedIsRefused) {
  Start("workers: 1 strategy { local {} }");
  EXPECT_TRUE(absl::IsAlreadyExists(controller_->Admit(Worker(0), 1, now_)));
  EXPECT_TRUE(absl::IsInvalidArgument(controller_->Admit(Worker(1), 1, now_)));
  EXPECT_TRUE(absl::IsInvalidArgument(controller_->Admit(Server(), 1, now_)));
}

TEST_F(JobControllerTest, PulsesComeOnceASecondAndWhenTheJobStops) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  for (int tick = 0; tick < 15; ++tick) Tick(0.1);
  ASSERT_EQ(pulses_.size(), 2);
  ASSERT_EQ(pulses_.back().task_size(), 2);
  EXPECT_EQ(pulses_.back().task(1).state(), proto::TaskPulse::RUNNING);
  Train(0, 1, {{0, 5}, {10, 15}});
  Train(1, 1, {{5, 10}, {15, 20}});
  FinishWell();
  EXPECT_EQ(pulses_.size(), 2);
  SaveOpened(absl::DataLossError("the disk is broken"));  // The error stops the job.
  ASSERT_EQ(pulses_.size(), 3);
  EXPECT_EQ(pulses_.back().step_bucket(0), 4);
}

TEST_F(JobControllerTest, FailedSaveDoesNotEndTraining) {
  StartAndMakeReady("workers: 1 strategy { local {} } checkpoint { every_steps: 1 }");
  Train(0, 1, {{0, 10}});
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w0 form", "w0 run", "open"));
  SaveOpened(absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(Log(), ElementsAre("w0 run"));
  ASSERT_FALSE(notes_.empty());
  EXPECT_THAT(notes_.back(), HasSubstr("disk full"));
}

TEST_F(JobControllerTest, ExhaustedPatience_EndsJobWithATestAndASaveLikeTheLastEpoch) {
  job_epochs_ = 9;
  StartAndMakeReady("workers: 1 strategy { local {} } early_stopping { patience: 1 }");
  Train(0, 1, {{0, 10}, {10, 20}});
  Say(Worker(0), "evaluation_done { id: 1 samples: 2 labels: 2 correct: 1 loss_sum: 1 }");
  Train(0, 2, {{20, 30}, {30, 40}});
  Log();
  Say(Worker(0), "evaluation_done { id: 2 samples: 2 labels: 2 correct: 1 loss_sum: 1 }");
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate")) << "on the test split";
  EXPECT_THAT(notes_.back(), HasSubstr("validation loss has not improved on 0.5000 in 1 epoch"));
  Say(Worker(0), "evaluation_done { id: 3 samples: 4 labels: 4 correct: 1 }");
  EXPECT_THAT(Log(), ElementsAre("open"));
}

TEST_F(JobControllerTest, LastEpoch_IsRecordedForEarlyStoppingAfterResume) {
  job_epochs_ = 1;
  StartAndMakeReady("workers: 1 strategy { local {} } early_stopping { patience: 1 }");
  Train(0, 1, {{0, 10}, {10, 20}});
  FinishWell();
  EXPECT_TRUE(saved_state_.early_stopping().has_best());
  EXPECT_EQ(saved_state_.early_stopping().monitor(), proto::VALIDATION_LOSS);
  proto::RunSummary summary;
  controller_->FillSummary(now_, summary);
  EXPECT_FALSE(summary.stopped_early());
}

TEST_F(JobControllerTest, UnfinishedEpoch_IsNotRecordedForEarlyStopping) {
  job_epochs_ = 2;
  StartAndMakeReady("workers: 1 strategy { local {} } early_stopping { patience: 1 } max_steps: 1");
  Train(0, 1, {{0, 10}});
  FinishWell();
  EXPECT_EQ(saved_state_.position(), 10);
  EXPECT_FALSE(saved_state_.has_early_stopping());
  EXPECT_EQ(controller_->epochs_done(), 0.5);
}

TEST_F(JobControllerTest, DataWithAnotherStandardisation_AreRefusedOnResume) {
  Start("workers: 1 strategy { local {} }");
  proto::ModelDescription saved;
  saved.mutable_scaling()->add_mean(0.25);
  saved.mutable_scaling()->add_deviation(0.5);
  controller_->RequireScaling(saved, "checkpoints/step-4");
  Say(Worker(0), "join {}");
  Say(Worker(0), "ready { scaling { mean: 0.5 deviation: 0.5 } }");
  Tick(1);
  Tick(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(end_)) << end_;
  EXPECT_THAT(std::string(end_.message()),
              HasSubstr("checkpoints/step-4 was trained on inputs standardised by mean 0.25"));
}

TEST_F(JobControllerTest, KeepBest_SavesEachEpochThatBeatsTheBestSavedOne) {
  job_epochs_ = 9;
  StartAndMakeReady("workers: 1 strategy { local {} } checkpoint { keep_best: true }");
  Train(0, 1, {{0, 10}, {10, 20}});
  Log();
  Say(Worker(0), "evaluation_done { id: 1 samples: 2 labels: 2 correct: 1 loss_sum: 1 }");
  EXPECT_THAT(Log(), ElementsAre("open"));
  SaveOpened(absl::ResourceExhaustedError("disk full"));
  Train(0, 2, {{20, 30}, {30, 40}});
  Say(Worker(0), "evaluation_done { id: 3 samples: 2 labels: 2 correct: 1 loss_sum: 2 }");
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w0 evaluate", "open")) << "no saved epoch is best";
  SaveOpened(absl::OkStatus());
  Say(Worker(0), "save_done { id: 4 }");
  SaveCommitted(absl::OkStatus());
  Train(0, 3, {{40, 50}, {50, 60}});
  Log();
  Say(Worker(0), "evaluation_done { id: 5 samples: 2 labels: 2 correct: 1 loss_sum: 3 }");
  EXPECT_THAT(Log(), ElementsAre("w0 run"));
  proto::RunSummary summary;
  controller_->FillSummary(now_, summary);
  EXPECT_EQ(summary.best().epoch(), 1);
}

TEST_F(JobControllerTest, FailureOfTheLastSaveFailsTheJob) {
  StartAndMakeReady("workers: 1 strategy { local {} }");
  Train(0, 1, {{0, 10}, {10, 20}});
  FinishWell();
  SaveOpened(absl::ResourceExhaustedError("disk full"));
  Vanish(Worker(0));
  EXPECT_TRUE(absl::IsResourceExhausted(end_)) << end_;
  EXPECT_THAT(std::string(end_.message()), HasSubstr("final checkpoint"));
}

}  // namespace
}  // namespace tethys
