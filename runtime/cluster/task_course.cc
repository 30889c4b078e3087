#include "runtime/cluster/task_course.h"

#include <string>

namespace tethys {
namespace {

enum class Fit {
  kDuty,     // The task carries the order out.
  kLate,     // The order is for a segment that the task has ended; the order has no effect.
  kForeign,  // The chief must not send this order to an idle task of this role.
};

// What an idle task of this role does with an order.
Fit FitOf(proto::Role role, proto::ToTask::MessageCase order) {
  const bool worker = role == proto::WORKER;
  switch (order) {
    case proto::ToTask::kSave:
      return Fit::kDuty;
    case proto::ToTask::kRun:
    case proto::ToTask::kEvaluate:
      return worker ? Fit::kDuty : Fit::kForeign;
    case proto::ToTask::kFence:
      return worker ? Fit::kForeign : Fit::kDuty;
    case proto::ToTask::kPause:
    case proto::ToTask::kCut:
      return worker ? Fit::kLate : Fit::kForeign;
    default:
      return Fit::kForeign;
  }
}

std::string NameOf(const proto::ToTask& order) {
  const auto* field = proto::ToTask::descriptor()->FindFieldByNumber(order.message_case());
  return field == nullptr ? "an unknown order" : absl::StrCat("the order '", field->name(), "'");
}

}  // namespace

absl::Status TaskCourse::OnOrder(proto::ToTask order) {
  TETHYS_CHECK(takes_orders());
  if (order.has_stop()) {
    if (!busy_ && !order.stop().failed()) {
      stage_ = Stage::kEnded;
      return absl::OkStatus();
    }
    return absl::AbortedError(absl::StrCat("the chief ended the job: ", order.stop().reason()));
  }
  if (busy_) return OnOrderWhileBusy(order);
  if (stage_ == Stage::kJoined && !order.has_setup()) {
    return absl::InternalError(absl::StrCat("the chief sent ", NameOf(order), " before it set this task up"));
  }
  if (stage_ == Stage::kSetUp && !order.has_form()) {
    return absl::InternalError(
        absl::StrCat("the chief sent ", NameOf(order), " before this task was in a group"));
  }
  const Fit fit = stage_ == Stage::kIdle ? FitOf(role_, order.message_case()) : Fit::kDuty;
  if (fit == Fit::kForeign) return Impossible(order);
  if (fit == Fit::kLate) return absl::OkStatus();
  duty_ = std::move(order);
  busy_ = true;
  Begin(duty_);
  return absl::OkStatus();
}

void TaskCourse::OnDone() {
  TETHYS_CHECK(busy());
  stage_ = stage_ == Stage::kJoined ? Stage::kSetUp : Stage::kIdle;
  busy_ = false;
  duty_.Clear();
}

absl::Status TaskCourse::Impossible(const proto::ToTask& order) const {
  const char* task = role_ == proto::WORKER ? "worker" : "parameter server";
  return absl::InternalError(
      busy()
          ? absl::StrCat("the chief sent ", NameOf(order), ", which does not fit the segment of this ", task)
          : absl::StrCat("the chief sent ", NameOf(order), ", which this ", task, " cannot carry out"));
}

}  // namespace tethys
