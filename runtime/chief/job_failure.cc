#include "runtime/chief/job_failure.h"

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

}  // namespace tethys
