// A JobController that tests saving and restoring at each event: the event is passed to the controller, and
// also to a second controller that was restored from the serialized state before the event. The actions and
// answers of both and their states afterwards must be equal. By induction, a job may be restored at any event
// and continues exactly as the original.
//
// A third controller gets all events from the chief's log, as serialized records (chief_input.h). It, too,
// must return the same actions and answers and reach the same states. Before every seventh event, the log is
// replaced by one that begins with a snapshot: the third controller is restored from it.
#ifndef TETHYS_TESTS_RUNTIME_CHIEF_RESTORED_CONTROLLER_H_
#define TETHYS_TESTS_RUNTIME_CHIEF_RESTORED_CONTROLLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "proto/chief_log.pb.h"
#include "runtime/chief/chief_input.h"
#include "runtime/chief/job_controller.h"
#include "tests/runtime/chief/action_text.h"

namespace tethys {

class RestoredController {
 public:
  // `fail` is called with a description of each difference.
  RestoredController(const proto::JobPlan& plan, const proto::TrainingState& state, bool restore,
                     const StatisticsBook& statistics, Nanoseconds now,
                     std::function<void(const std::string&)> fail)
      : plan_(plan),
        fail_(std::move(fail)),
        controller_(plan, state, restore, statistics, now),
        repeated_(std::make_unique<JobController>(plan, state, restore, statistics, now)) {}

  void RequireScaling(const proto::ModelDescription& saved, const std::string& path) {
    controller_.RequireScaling(saved, path);
    repeated_->RequireScaling(saved, path);
  }

  absl::Status Admit(TaskId task, uint32_t incarnation, Nanoseconds now) {
    absl::Status own, restored;
    Both<absl::Status>([&](JobController& controller,
                           absl::Status& status) { status = controller.Admit(task, incarnation, now); },
                       own, restored);
    if (own != restored) fail_(absl::StrCat("Admit: ", StatusText(own), " / ", StatusText(restored)));
    const absl::Status repeated = Repeat(AdmitInput(task, incarnation), now, {});
    if (own != repeated) fail_(absl::StrCat("Admit: ", StatusText(own), " / ", StatusText(repeated)));
    return own;
  }
  void OnMessage(TaskId task, uint32_t incarnation, const proto::FromTask& message, Nanoseconds now,
                 Actions& actions) {
    Event(MessageInput(task, incarnation, message), now, actions,
          [&](JobController& controller, Actions& to) {
            controller.OnMessage(task, incarnation, message, now, to);
          });
  }
  void OnGone(TaskId task, uint32_t incarnation, Nanoseconds now, Actions& actions) {
    Event(GoneInput(task, incarnation), now, actions,
          [&](JobController& controller, Actions& to) { controller.OnGone(task, incarnation, now, to); });
  }
  void OnTick(Nanoseconds now, Actions& actions) {
    proto::ChiefRecord record;
    record.set_tick(true);
    Event(record, now, actions, [&](JobController& controller, Actions& to) { controller.OnTick(now, to); });
  }
  void OnInterrupt(Nanoseconds now, Actions& actions) {
    proto::ChiefRecord record;
    record.set_interrupt(true);
    Event(record, now, actions,
          [&](JobController& controller, Actions& to) { controller.OnInterrupt(now, to); });
  }
  void SaveOpened(const absl::Status& status, Nanoseconds now, Actions& actions) {
    Event(SaveOpenedInput(status), now, actions,
          [&](JobController& controller, Actions& to) { controller.SaveOpened(status, now, to); });
  }
  void SaveCommitted(const absl::Status& status, const std::string& directory, Nanoseconds now,
                     Actions& actions) {
    Event(SaveCommittedInput(status, directory), now, actions, [&](JobController& controller, Actions& to) {
      controller.SaveCommitted(status, directory, now, to);
    });
  }

  void FillSummary(Nanoseconds now, proto::RunSummary& summary) const {
    controller_.FillSummary(now, summary);
    proto::RunSummary restored;
    if (const auto fresh = Restored(controller_); fresh != nullptr) fresh->FillSummary(now, restored);
    if (restored.SerializeAsString() != summary.SerializeAsString()) {
      fail_(absl::StrCat("summaries:\n", summary.DebugString(), "\nrestored:\n", restored.DebugString()));
    }
  }
  double epochs_done() const { return controller_.epochs_done(); }
  proto::ChiefState State() const {
    proto::ChiefState state;
    controller_.Save(state);
    return state;
  }

 private:
  static constexpr int64_t kEventsPerLog = 7;

  // Returns null if the state was refused.
  std::unique_ptr<JobController> Restored(const JobController& controller) const {
    proto::ChiefState saved, state;
    controller.Save(saved);
    if (!state.ParseFromString(saved.SerializeAsString())) fail_("the state cannot be parsed");
    absl::StatusOr<std::unique_ptr<JobController>> restored = JobController::Restore(plan_, state);
    if (restored.ok()) return *std::move(restored);
    fail_(absl::StrCat(restored.status().ToString(), "\n", state.DebugString()));
    return nullptr;
  }

  // Calls function(controller, result) for the original controller and for a restored one.
  template <typename Result>
  void Both(const std::function<void(JobController&, Result&)>& function, Result& own, Result& restored) {
    const std::unique_ptr<JobController> fresh = Restored(controller_);
    function(controller_, own);
    if (fresh == nullptr) return;
    function(*fresh, restored);
    proto::ChiefState after;
    fresh->Save(after);
    const proto::ChiefState expected = State();
    if (after.SerializeAsString() == expected.SerializeAsString()) return;
    fail_(absl::StrCat("states:\n", expected.DebugString(), "\nrestored:\n", after.DebugString()));
  }
  template <typename Function>
  void Event(const proto::ChiefRecord& record, Nanoseconds now, Actions& actions, const Function& function) {
    Actions own, restored;
    Both<Actions>(function, own, restored);
    const std::string expected = FullText(own), text = FullText(restored);
    if (text != expected) fail_(absl::StrCat("actions:\n", expected, "\nrestored:\n", text));
    Repeat(record, now, own).IgnoreError();
    for (Action& action : own) actions.push_back(std::move(action));
  }

  // Gives `record` to the third controller, after the other two have taken the event.
  absl::Status Repeat(proto::ChiefRecord record, Nanoseconds now, const Actions& expected) {
    if (++events_ % kEventsPerLog == 0) {
      if (auto restored = Restored(*repeated_); restored != nullptr) repeated_ = std::move(restored);
    }
    record.set_now_ns(now);
    proto::ChiefRecord read;
    if (!read.ParseFromString(record.SerializeAsString())) fail_("the record cannot be parsed");
    Actions actions;
    const absl::Status status = GiveInput(read, "h0", *repeated_, actions);
    if (const std::string text = FullText(actions), own = FullText(expected); text != own) {
      fail_(absl::StrCat("actions:\n", own, "\nrepeated:\n", text));
    }
    proto::ChiefState after;
    repeated_->Save(after);
    const proto::ChiefState own = State();
    if (after.SerializeAsString() != own.SerializeAsString()) {
      fail_(absl::StrCat("states:\n", own.DebugString(), "\nrepeated:\n", after.DebugString()));
    }
    return status;
  }

  const proto::JobPlan plan_;
  const std::function<void(const std::string&)> fail_;
  JobController controller_;
  std::unique_ptr<JobController> repeated_;
  int64_t events_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHIEF_RESTORED_CONTROLLER_H_
