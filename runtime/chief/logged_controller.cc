#include "runtime/chief/logged_controller.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/process.h"
#include "runtime/chief/chief_input.h"
#include "runtime/chief/saved_values.h"

namespace tethys {

LoggedController::LoggedController(std::unique_ptr<JobController> controller, const std::string& host,
                                   const Clock& clock)
    : host_(host), clock_(clock), controller_(std::move(controller)) {
  controller_->ExplainSilence([this] { return overload_; });
}

void LoggedController::Log(std::unique_ptr<ChiefLog> log) {
  MutexLock lock(mu_);
  log_ = std::move(log);
}

absl::Status LoggedController::Give(proto::ChiefRecord& record, Actions& actions) {
  MutexLock lock(mu_);
  record.set_now_ns(clock_.Now());
  if (record.tick()) {
    const std::string overload = OverloadText();
    if (!overload.empty()) record.set_overload(absl::StrCat("; on the chief's side, ", overload));
  }
  if (log_ != nullptr) log_->Append(record);
  return Apply(record, actions);
}

void LoggedController::Repeat(const proto::ChiefRecord& record, Actions& actions) {
  MutexLock lock(mu_);
  Apply(record, actions).IgnoreError();
}

absl::Status LoggedController::Apply(const proto::ChiefRecord& record, Actions& actions) {
  if (record.tick()) overload_ = record.overload();
  const absl::Status status = GiveInput(record, host_, *controller_, actions);
  if (record.has_admit() && status.ok()) {
    sessions_[TaskOf(record.admit().task())] = {.incarnation = record.admit().incarnation()};
  } else if (record.has_message() || record.has_gone()) {
    const proto::TaskInput& input = record.has_gone() ? record.gone() : record.message();
    Session& session = sessions_[TaskOf(input.task())];
    if (session.incarnation != input.incarnation()) return status;
    session.messages += record.has_message() ? 1 : 0;
    session.gone = session.gone || record.has_gone();
  }
  return status;
}

absl::StatusOr<int64_t> LoggedController::MessagesOf(TaskId task, uint32_t incarnation) {
  MutexLock lock(mu_);
  const auto found = sessions_.find(task);
  if (found != sessions_.end() && found->second.incarnation == incarnation && !found->second.gone) {
    return found->second.messages;
  }
  return absl::AbortedError("the chief knows no open session of this task");
}

uint32_t LoggedController::Complete(SendOrder& action) {
  MutexLock lock(mu_);
  if (action.order.has_pong()) {
    action.order.mutable_pong()->set_messages_received(sessions_[action.task].messages);
  }
  return controller_->incarnation(action.task);
}

void LoggedController::Read(absl::FunctionRef<void(const JobController& controller)> read) {
  MutexLock lock(mu_);
  read(*controller_);
}

}  // namespace tethys
