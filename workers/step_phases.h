// Measures the phases of a step: for the recorder by the host's clock, for a profiler by named ranges. On an
// asynchronous device, phase times come from events on its stream, readable after the step.
//
//   phases.Begin(step);
//   phases.Run(Phase::kForward, [&] { return plan.Forward(); });   // and every other phase, in order
//   ...
//   phases.OnDevice(step)                                          // once the step has happened
//
// Run enqueues the same events in every step of a parity, so a graph may hold them; times are then those of
// the graph's last launch. Used by the training thread. Nothing blocks or allocates.
#ifndef TETHYS_WORKERS_STEP_PHASES_H_
#define TETHYS_WORKERS_STEP_PHASES_H_

#include <array>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "runtime/device/device.h"
#include "runtime/strategy.h"
#include "runtime/telemetry/step_recorder.h"

namespace tethys {

class StepPhases {
 public:
  // Work is on `stream`. What is borrowed outlives the phases.
  static absl::StatusOr<std::unique_ptr<StepPhases>> Create(Device& device, Stream& stream,
                                                            StepRecorder& recorder);

  // Takes StrategyTraits::updates_here: if false, no update time is read from the device. Initially true.
  void set_updates_here(bool updates_here) { updates_here_ = updates_here; }

  // Phases belong to this step until the next Begin.
  void Begin(const StepInfo& step) { step_ = step; }

  // Runs `work` as a phase of the step. Errors are those of `work`.
  absl::Status Run(Phase phase, absl::FunctionRef<absl::Status()> work);

  // Called once a step has happened, before the next of its parity begins. Absent where the host's times are
  // those of the device.
  absl::StatusOr<std::optional<DeviceTimes>> OnDevice(const StepInfo& step) const;

  // The events of StepArenas.
  UpdateEvents update_events() const { return {events_[0].update.get(), events_[1].update.get()}; }

 private:
  // Recorded in each step of a parity; null where the host's times are those of the device.
  struct Events {
    std::array<std::unique_ptr<TimedEvent>, kPhases> ends;  // By phase: its end.
    std::unique_ptr<TimedEvent> update;                     // Where the update begins, within kExchange.
  };

  StepPhases(Device& device, Stream& stream, StepRecorder& recorder)
      : device_(device), stream_(stream), recorder_(recorder) {}
  absl::Status CreateEvents();

  Device& device_;
  Stream& stream_;
  StepRecorder& recorder_;
  bool updates_here_ = true;
  bool timed_ = false;
  std::array<Events, 2> events_;  // By StepInfo::parity.
  StepInfo step_;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_STEP_PHASES_H_
