// The fixture of tests of JobController: sends messages of workers and servers to a controller, and logs its
// actions. Every event also goes to a controller restored from the state before that event
// (restored_controller.h).
#ifndef TETHYS_TESTS_RUNTIME_CHIEF_JOB_CONTROLLER_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_CHIEF_JOB_CONTROLLER_FIXTURE_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/chief/action_text.h"
#include "tests/runtime/chief/restored_controller.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {

// Sends tasks' messages, given in text format, to a controller. Its actions are logged as ActionText writes
// them: "w0 run", "p0 save", "commit".
class JobControllerTest : public ::testing::Test {
 protected:
  void Start(const std::string& job) {
    plan_ = Plan(job);
    plan_.mutable_worker_device()->Add(worker_devices_.begin(), worker_devices_.end());
    plan_.set_train_samples(train_samples_);
    plan_.mutable_job()->set_epochs(job_epochs_);
    proto::TrainingState state;
    state.set_train_samples(train_samples_);
    controller_ = std::make_unique<RestoredController>(
        plan_, state, false, StatisticsBook(plan_.job().workers(), statistics_), now_,
        [](const std::string& difference) { ADD_FAILURE() << difference; });
    for (int i = 0; i < plan_.job().workers(); ++i) ASSERT_TRUE(controller_->Admit(Worker(i), 1, now_).ok());
    for (int i = 0; i < plan_.placement().servers(); ++i) {
      ASSERT_TRUE(controller_->Admit(Server(i), 1, now_).ok());
    }
  }
  // Starts a job and makes all tasks join and become ready, so that training begins.
  void StartAndMakeReady(const std::string& job) {
    Start(job);
    for (int i = 0; i < plan_.job().workers(); ++i) Say(Worker(i), "join {}");
    for (int i = 0; i < plan_.placement().servers(); ++i) Say(Server(i), "join {}");
    for (int i = 0; i < plan_.placement().servers(); ++i) BeReady(Server(i));
    for (int i = 0; i < plan_.job().workers(); ++i) BeReady(Worker(i));
  }
  // Sends a task's answers to the chief's orders Setup and Form.
  void BeReady(TaskId task, uint32_t generation = 1) {
    Say(task, "ready {}");
    Say(task, absl::StrCat("formed { generation: ", generation, " }"));
  }
  // Sends a worker's step records, one for each slice, and then the end of its run.
  void Train(int worker, int64_t run, std::vector<Slice> slices) {
    for (const Slice slice : slices) {
      Say(Worker(worker),
          absl::StrCat("steps { record { rank: ", worker, " step: ", slice.begin / plan_.global_batch(),
                       " sample_begin: ", slice.begin, " samples: ", slice.count(),
                       " labels: ", slice.count(), " loss_sum: 1 correct: 1 } }"));
    }
    Say(Worker(worker), absl::StrCat("run_done { run: ", run, " }"));
  }

  static TaskId Worker(int index) { return {proto::WORKER, index}; }
  static TaskId Server(int index = 0) { return {proto::PS, index}; }

  void Say(TaskId task, const std::string& text) {
    proto::FromTask message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    Actions actions;
    controller_->OnMessage(task, task.role == proto::WORKER ? incarnation_ : server_incarnation_, message,
                           now_, actions);
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
  void Interrupt() {
    Actions actions;
    controller_->OnInterrupt(now_, actions);
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
      const std::string text = ActionText(action);
      if (!text.empty()) log_.push_back(text);
      if (const auto* send = absl::get_if<SendOrder>(&action)) {
        if (!text.empty()) orders_.push_back(*send);
      } else if (const auto* line = absl::get_if<WriteJournal>(&action)) {
        journal_ += line->line;
      } else if (const auto* report = absl::get_if<Report>(&action)) {
        if (report->event.has_epoch()) epochs_.push_back(report->event.epoch());
        if (report->event.has_pulse()) pulses_.push_back(report->event.pulse());
        if (!report->event.note().empty()) notes_.push_back(report->event.note());
      } else if (const auto* end = absl::get_if<EndJob>(&action)) {
        end_ = end->status;
        culprit_ = end->culprit;
      } else if (const auto* open = absl::get_if<OpenSave>(&action)) {
        saved_statistics_ = open->statistics;
        saved_state_ = open->state;
      }
    }
  }
  // The last order of this kind.
  const SendOrder& Last(proto::ToTask::MessageCase kind) const {
    static const SendOrder kNone;
    for (auto sent = orders_.rbegin(); sent != orders_.rend(); ++sent) {
      if (sent->order.message_case() == kind) return *sent;
    }
    ADD_FAILURE() << "no such order was sent";
    return kNone;
  }
  // The texts logged since the last call.
  std::vector<std::string> Log() { return std::exchange(log_, {}); }

  // Answers the orders to evaluate the validation split and then the test split, and reports every sample as
  // correctly classified. The controller then begins the last save.
  void FinishWell() {
    for (int order = 1; order <= 2; ++order) {
      for (int i = 0; i < plan_.job().workers(); ++i) {
        const int64_t samples = AskedToEvaluate(i, order);
        Say(Worker(i), absl::StrCat("evaluation_done { id: ", order, " samples: ", samples,
                                    " labels: ", samples, " correct: ", samples, " loss_sum: 0.5 }"));
      }
    }
  }

  // The number of samples that the Evaluate order with the id `order` gave the worker; 0 if none was sent.
  int64_t AskedToEvaluate(int worker, int64_t order) const {
    for (const SendOrder& sent : orders_) {
      const proto::Evaluate& evaluate = sent.order.evaluate();
      if (sent.task == Worker(worker) && evaluate.id() == order) return evaluate.end() - evaluate.begin();
    }
    return 0;
  }

  Nanoseconds now_ = 1 * kSecond;
  uint32_t incarnation_ = 1;         // The incarnation of the worker that sends messages or vanishes.
  uint32_t server_incarnation_ = 1;  // The incarnation of the server that sends messages.
  int64_t train_samples_ = 20;
  std::vector<proto::Device::Kind> worker_devices_;  // The plan's worker_device; empty: the job's device.
  MovingStatistics statistics_ = {};                 // The moving statistics with which the job begins.
  int64_t job_epochs_ = 1;
  proto::JobPlan plan_;
  std::unique_ptr<RestoredController> controller_;
  std::vector<std::string> log_;
  std::vector<proto::EpochResult> epochs_;
  std::vector<std::string> notes_;
  std::vector<proto::Pulse> pulses_;
  std::vector<SendOrder> orders_;
  std::string journal_;
  MovingStatistics saved_statistics_ = {};  // The moving statistics of the last save.
  proto::TrainingState saved_state_;        // The training state of the last save.
  absl::Status end_;
  TaskId culprit_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHIEF_JOB_CONTROLLER_FIXTURE_H_
