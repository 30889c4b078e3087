#include "runtime/chief/job_failure.h"

#include "runtime/chief/saved_values.h"

namespace tethys {
namespace {

bool LooksLikeEcho(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
         absl::IsCancelled(status);
}

}  // namespace

void JobFailure::Note(const absl::Status& status, TaskId culprit, Nanoseconds now) {
  Set(status, culprit, false, now);
}

void JobFailure::NoteReport(const absl::Status& status, TaskId culprit, Nanoseconds now) {
  const bool echo = LooksLikeEcho(status);
  Set(status, culprit, echo, echo ? now + kEchoPatience : now);
}

void JobFailure::Set(const absl::Status& status, TaskId culprit, bool echo, Nanoseconds due) {
  if (any() && (!echo_ || echo)) return;
  status_ = status;
  culprit_ = culprit;
  echo_ = echo;
  due_ = due;
}

void JobFailure::Save(proto::FailureState& state) const {
  Put(status_, *state.mutable_status());
  Put(culprit_, *state.mutable_culprit());
  state.set_echo(echo_);
  state.set_due_ns(due_);
}

absl::Status JobFailure::Restore(const proto::FailureState& state) {
  StateCheck check;
  check.StatusCode("status.code", state.status().code());
  check.That(proto::Role_IsValid(state.culprit().role()), "the culprit has no role");
  check.Time("due_ns", state.due_ns());
  TETHYS_RETURN_IF_ERROR(check.status());
  status_ = StatusOf(state.status());
  culprit_ = TaskOf(state.culprit());
  echo_ = state.echo();
  due_ = state.due_ns();
  return absl::OkStatus();
}

}  // namespace tethys
