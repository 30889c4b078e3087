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

absl::StatusOr<std::unique_ptr<LoggedController>> LoggedController::Restore(
    const proto::JobPlan& plan, const proto::LoggedControllerState& state, const std::string& host,
    const Clock& clock) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<JobController> controller,
                          JobController::Restore(plan, state.controller()));
  auto logged = std::make_unique<LoggedController>(std::move(controller), host, clock);
  TETHYS_RETURN_IF_ERROR(logged->RestoreSessions(state));
  return logged;
}

absl::Status LoggedController::RestoreSessions(const proto::LoggedControllerState& state) {
  MutexLock lock(mu_);
  overload_ = state.overload();
  StateCheck check;
  for (const proto::LoggedControllerState::Session& saved : state.session()) {
    check.Count("messages", saved.messages());
    const bool added = sessions_
                           .emplace(TaskOf(saved.task()), Session{.incarnation = saved.incarnation(),
                                                                  .messages = saved.messages(),
                                                                  .gone = saved.gone()})
                           .second;
    check.That(added, "a task has two sessions");
  }
  return Annotate(check.status(), "the sessions of the tasks");
}

void LoggedController::Save(proto::LoggedControllerState& state) const {
  controller_->Save(*state.mutable_controller());
  for (const auto& [task, session] : sessions_) {
    proto::LoggedControllerState::Session& saved = *state.add_session();
    Put(task, *saved.mutable_task());
    saved.set_incarnation(session.incarnation);
    saved.set_messages(session.messages);
    saved.set_gone(session.gone);
  }
  state.set_overload(overload_);
}

bool LoggedController::SnapshotDue() {
  MutexLock lock(mu_);
  return log_ != nullptr && log_->IsLong() && controller_->course().trains_or_evaluates();
}

absl::Status LoggedController::BeginNewLog(proto::ChiefRecord& record) {
  MutexLock lock(mu_);
  Save(*record.mutable_begin()->mutable_snapshot()->mutable_controller());
  return log_->Replace(record);
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
