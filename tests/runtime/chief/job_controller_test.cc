#include "runtime/chief/job_controller.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Twenty samples in batches of ten, two of validation, four of test: two steps an epoch, one epoch.
proto::JobPlan Plan(const std::string& job) {
  proto::JobPlan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "epochs: 1 evaluate_each_epoch: true timeouts { start: 60 silence: 10 step: 30 shutdown: 3 } " + job,
      plan.mutable_job()));
  plan.set_train_samples(20);
  plan.set_validation_samples(2);
  plan.set_test_samples(4);
  plan.set_global_batch(10);
  plan.set_batch_per_worker(5);
  if (plan.job().strategy().has_parameter_server()) plan.mutable_placement()->set_servers(1);
  return plan;
}

// Plays tasks against a controller. Orders come out as words: "w0 run", "w1 evaluate", "p0 save"; other
// actions as "open", "commit", "abandon", "end CODE".
class JobControllerTest : public ::testing::Test {
 protected:
  void Start(const std::string& job) {
    plan_ = Plan(job);
    proto::TrainingState state;
    state.set_train_samples(20);
    controller_ = std::make_unique<JobController>(plan_, state, false, now_);
    for (int i = 0; i < plan_.job().workers(); ++i) ASSERT_TRUE(controller_->Admit(Worker(i), 1, now_).ok());
    if (plan_.placement().servers() > 0) {
      ASSERT_TRUE(controller_->Admit(Server(), 1, now_).ok());
    }
  }
  // To the first segment.
  void StartAndMakeReady(const std::string& job) {
    Start(job);
    for (int i = 0; i < plan_.job().workers(); ++i) Say(Worker(i), "join {}");
    if (plan_.placement().servers() > 0) {
      Say(Server(), "join {}");
      Say(Server(), "ready {}");
    }
    for (int i = 0; i < plan_.job().workers(); ++i) Say(Worker(i), "ready {}");
  }
  // One worker's records and end of a segment.
  void Train(int worker, int64_t segment, std::vector<Slice> slices) {
    for (const Slice slice : slices) {
      Say(Worker(worker), absl::StrCat("steps { record { rank: ", worker, " sample_begin: ", slice.begin,
                                       " samples: ", slice.count(), " loss_sum: 1 correct: 1 } }"));
    }
    Say(Worker(worker), absl::StrCat("segment_done { segment: ", segment, " }"));
  }

  static TaskId Worker(int index) { return {proto::WORKER, index}; }
  static TaskId Server() { return {proto::PS, 0}; }

  void Say(TaskId task, const std::string& text) {
    proto::FromTask message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    Actions actions;
    controller_->OnMessage(task, incarnation_, message, now_, actions);
    Take(actions);
  }
  void Tick(double seconds) {
    now_ += FromSeconds(seconds);
    Actions actions;
    controller_->OnTick(now_, actions);
    Take(actions);
  }
  void Vanish(TaskId task) {
    Actions actions;
    controller_->OnGone(task, incarnation_, now_, actions);
    Take(actions);
  }
  void SaveOpened(const absl::Status& status) {
    Actions actions;
    controller_->SaveOpened(status, now_, actions);
    Take(actions);
  }
  void SaveCommitted(const absl::Status& status) {
    Actions actions;
    controller_->SaveCommitted(status, "step-2", now_, actions);
    Take(actions);
  }

  void Take(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* send = absl::get_if<SendOrder>(&action)) {
        const auto* field =
            send->order.GetDescriptor()->FindFieldByNumber(static_cast<int>(send->order.message_case()));
        if (field->name() == "pong") continue;
        log_.push_back(
            absl::StrCat(send->task.role == proto::PS ? "p" : "w", send->task.index, " ", field->name()));
      } else if (absl::holds_alternative<OpenSave>(action)) {
        log_.push_back("open");
      } else if (absl::holds_alternative<CommitSave>(action)) {
        log_.push_back("commit");
      } else if (absl::holds_alternative<AbandonSave>(action)) {
        log_.push_back("abandon");
      } else if (const auto* report = absl::get_if<Report>(&action)) {
        if (report->event.has_epoch()) epochs_.push_back(report->event.epoch());
        if (!report->event.note().empty()) notes_.push_back(report->event.note());
      } else if (const auto* end = absl::get_if<EndJob>(&action)) {
        log_.push_back(absl::StrCat("end ", absl::StatusCodeToString(end->status.code())));
        end_ = end->status;
        culprit_ = end->culprit;
      }
    }
  }
  // What was logged since the last call.
  std::vector<std::string> Log() { return std::exchange(log_, {}); }

  // From the end of the only epoch to the end of the job.
  void FinishWell() {
    for (int order = 1; order <= 2; ++order) {
      for (int i = 0; i < plan_.job().workers(); ++i) {
        Say(Worker(i),
            absl::StrCat("evaluation_done { id: ", order, " samples: 1 correct: 1 loss_sum: 0.5 }"));
      }
    }
  }

  Nanoseconds now_ = 1 * kSecond;
  uint32_t incarnation_ = 1;  // Of the task that speaks.
  proto::JobPlan plan_;
  std::unique_ptr<JobController> controller_;
  std::vector<std::string> log_;
  std::vector<proto::EpochResult> epochs_;
  std::vector<std::string> notes_;
  absl::Status end_;
  TaskId culprit_;
};

TEST_F(JobControllerTest, AMirroredJobRunsItsCourse) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w1 setup", "w0 run", "w1 run"));
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

TEST_F(JobControllerTest, ServersAreSetUpBeforeWorkersAndSaveInTheirStead) {
  StartAndMakeReady("workers: 1 strategy { parameter_server { bulk_synchronous {} } }");
  EXPECT_THAT(Log(), ElementsAre("p0 setup", "w0 setup", "w0 run"));
  Train(0, 1, {{0, 10}, {10, 20}});
  FinishWell();
  Log();
  SaveOpened(absl::OkStatus());
  EXPECT_THAT(Log(), ElementsAre("p0 save"));
}

TEST_F(JobControllerTest, AsynchronousWorkersGetLeasesUnaskedAndOnRequest) {
  StartAndMakeReady("workers: 2 strategy { parameter_server { asynchronous {} } }");
  EXPECT_THAT(Log(),
              ElementsAre("p0 setup", "w0 setup", "w1 setup", "w0 run", "w0 lease", "w1 run", "w1 lease"));
  Say(Worker(0), "lease_request { batches: 4 }");
  EXPECT_THAT(Log(), ElementsAre("w0 lease"));
}

TEST_F(JobControllerTest, SamplesNobodyLeasedEndTheJob) {
  StartAndMakeReady("workers: 2 strategy { parameter_server { asynchronous {} } }");
  Log();
  Say(Worker(1), "steps { record { rank: 1 sample_begin: 0 samples: 5 } }");
  Tick(0.1);
  EXPECT_THAT(Log(), ElementsAre("w0 stop", "w1 stop", "p0 stop"));
}

TEST_F(JobControllerTest, ASegmentWithAnUnusedSampleEndsTheJob) {
  StartAndMakeReady("workers: 1 strategy { local {} }");
  Train(0, 1, {{0, 10}});
  Tick(0.1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("position 10 of epoch 0"));
}

TEST_F(JobControllerTest, ALostTaskEndsTheJobAndIsNamed) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Log();
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("w0 stop"));
  Tick(3);
  EXPECT_THAT(Log(), ElementsAre("end UNAVAILABLE"));
  EXPECT_EQ(culprit_, Worker(1));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 1"));
}

TEST_F(JobControllerTest, AnEchoWaitsForItsCause) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Log();
  Say(Worker(0), absl::StrCat("failure { message: 'lost worker 1' status_code: ",
                              static_cast<int>(absl::StatusCode::kUnavailable), " }"));
  Tick(0.2);
  EXPECT_THAT(Log(), IsEmpty());
  Vanish(Worker(1));
  Tick(3);
  EXPECT_EQ(culprit_, Worker(1));
}

TEST_F(JobControllerTest, AnEchoWithoutCauseEndsTheJobAllTheSame) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Say(Worker(0), absl::StrCat("failure { message: 'no progress' status_code: ",
                              static_cast<int>(absl::StatusCode::kDeadlineExceeded), " }"));
  Tick(1);
  Tick(3);
  EXPECT_EQ(culprit_, Worker(0));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("no progress"));
}

TEST_F(JobControllerTest, ASilentTaskIsLost) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  for (int i = 0; i < 11; ++i) {
    Say(Worker(0), "heartbeat {}");
    Tick(1);
  }
  Tick(3);
  EXPECT_EQ(culprit_, Worker(1));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("silent for 10 s"));
}

TEST_F(JobControllerTest, AChiefThatWasPausedBlamesNobody) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Tick(0.1);
  Tick(60);
  Tick(0.1);
  EXPECT_TRUE(end_.ok()) << end_;
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w1 setup", "w0 run", "w1 run"));
}

TEST_F(JobControllerTest, WhoIsMissingAtTheStartIsNamed) {
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

TEST_F(JobControllerTest, RefusesTasksItDoesNotKnowOrHasAlready) {
  Start("workers: 1 strategy { local {} }");
  EXPECT_TRUE(absl::IsAlreadyExists(controller_->Admit(Worker(0), 1, now_)));
  EXPECT_TRUE(absl::IsInvalidArgument(controller_->Admit(Worker(1), 1, now_)));
  EXPECT_TRUE(absl::IsInvalidArgument(controller_->Admit(Server(), 1, now_)));
}

TEST_F(JobControllerTest, AFailedSaveDoesNotEndTheTraining) {
  StartAndMakeReady("workers: 1 strategy { local {} } checkpoint { every_steps: 1 }");
  Train(0, 1, {{0, 10}});
  EXPECT_THAT(Log(), ElementsAre("w0 setup", "w0 run", "open"));
  SaveOpened(absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(Log(), ElementsAre("w0 run"));
  ASSERT_FALSE(notes_.empty());
  EXPECT_THAT(notes_.back(), HasSubstr("disk full"));
}

TEST_F(JobControllerTest, APartThatFailsAbandonsTheSave) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} } checkpoint { every_steps: 1 }");
  Train(0, 1, {{0, 5}});
  Train(1, 1, {{5, 10}});
  SaveOpened(absl::OkStatus());
  Log();
  Say(Worker(0), "save_done { id: 1 error: 'RESOURCE_EXHAUSTED: disk full' }");
  Say(Worker(1), "save_done { id: 1 }");
  EXPECT_THAT(Log(), ElementsAre("abandon", "w0 run", "w1 run"));
}

TEST_F(JobControllerTest, ALastSaveThatFailsFailsTheJob) {
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
