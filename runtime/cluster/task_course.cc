#include "runtime/cluster/task_course.h"

#include <string>

namespace tethys {
namespace {

std::string NameOf(const proto::ToTask& order) {
  const auto* field = proto::ToTask::descriptor()->FindFieldByNumber(order.message_case());
  return field == nullptr ? "an unknown order" : absl::StrCat("the order '", field->name(), "'");
}

}  // namespace

// Decides what a task that is in a group does with an order other than Setup, Form, Halt and Stop.
TaskCourse::Fit TaskCourse::FitInGroup(const proto::ToTask& order) const {
  const bool worker = role_ == proto::WORKER;
  switch (order.message_case()) {
    case proto::ToTask::kSave:
      return Fit::kDuty;
    case proto::ToTask::kRun:
      return worker && order.run().generation() == generation_ ? Fit::kDuty : Fit::kForeign;
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

// Decides what a task that is not busy does with an order other than Halt and Stop.
TaskCourse::Fit TaskCourse::FitOf(const proto::ToTask& order) const {
  if (stage_ == Stage::kJoined) return order.has_setup() ? Fit::kDuty : Fit::kForeign;
  if (order.has_setup()) return Fit::kForeign;
  if (order.has_form()) {
    if (order.form().group().generation() <= generation_) return Fit::kLate;
    return stage_ == Stage::kIdle ? Fit::kForeign : Fit::kDuty;
  }
  if (stage_ == Stage::kHalted) return Fit::kLate;
  return stage_ == Stage::kIdle ? FitInGroup(order) : Fit::kForeign;
}

absl::Status TaskCourse::OnOrder(proto::ToTask order) {
  TETHYS_CHECK(takes_orders());
  if (order.has_stop()) {
    if (!busy_ && !order.stop().failed()) {
      stage_ = Stage::kEnded;
      return absl::OkStatus();
    }
    return absl::AbortedError(absl::StrCat("the chief ended the job: ", order.stop().reason()));
  }
  // The session has passed this order on already (TaskSession::CallAtOnce).
  if (order.has_servers()) return absl::OkStatus();
  if (order.has_halt()) {
    // Ignores a Halt of an earlier group: the task has been ordered to join a later group since.
    if (order.halt().generation() < generation_) return absl::OkStatus();
    if (busy_) {
      halt_ = std::move(order);
    } else {
      BeginDuty(std::move(order));
    }
    return absl::OkStatus();
  }
  if (busy_) return OnOrderWhileBusy(order);
  const Fit fit = FitOf(order);
  if (fit == Fit::kForeign) return Impossible(order);
  if (fit == Fit::kDuty) BeginDuty(std::move(order));
  return absl::OkStatus();
}

void TaskCourse::BeginDuty(proto::ToTask duty) {
  duty_ = std::move(duty);
  busy_ = true;
  if (duty_.has_form()) generation_ = duty_.form().group().generation();
  Begin(duty_);
}

void TaskCourse::EndDuty(Stage stage) {
  stage_ = stage;
  busy_ = false;
  duty_.Clear();
  if (halt_.has_value()) BeginDuty(*std::exchange(halt_, absl::nullopt));
}

void TaskCourse::OnDone() {
  TETHYS_CHECK(busy());
  // A task that was in no group leaves nothing, so it keeps its stage.
  const bool in_group = stage_ == Stage::kIdle || stage_ == Stage::kHalted;
  if (duty_.has_halt()) return EndDuty(in_group ? Stage::kHalted : stage_);
  EndDuty(duty_.has_setup() ? Stage::kSetUp : Stage::kIdle);
}

void TaskCourse::OnLeft() {
  TETHYS_CHECK(busy() && !duty_.has_setup() && !duty_.has_halt());
  Leave();
  EndDuty(Stage::kHalted);
}

void TaskCourse::SayHalted(proto::Halted halted) {
  halted.set_generation(generation_);
  *messages_.emplace_back().mutable_halted() = std::move(halted);
}

absl::Status TaskCourse::Impossible(const proto::ToTask& order) const {
  if (stage_ == Stage::kJoined) {
    return absl::InternalError(absl::StrCat("the chief sent ", NameOf(order), " before it set this task up"));
  }
  const char* task = role_ == proto::WORKER ? "worker" : "parameter server";
  if (stage_ == Stage::kSetUp) {
    return absl::InternalError(
        absl::StrCat("the chief sent ", NameOf(order), " before this task was in a group"));
  }
  return absl::InternalError(
      busy()
          ? absl::StrCat("the chief sent ", NameOf(order), ", which does not fit the segment of this ", task)
          : absl::StrCat("the chief sent ", NameOf(order), ", which this ", task, " cannot carry out"));
}

}  // namespace tethys
