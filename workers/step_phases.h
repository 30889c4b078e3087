// Measures the phases of a step with the host's clock, for the recorder, and marks the phases as named
// ranges, for a profiler. On an asynchronous device, phase times come from events on the device's stream, and
// can be read after the step.
//
//   phases.Begin(step);
//   phases.Run(Phase::kForward, [&] { return plan.Forward(); });   // and every other phase, in order
//   ...
//   phases.OnDevice(step)                                          // once the step has ended
//
// Run enqueues the same events in every step of one parity, so a graph may contain them; OnDevice then
// returns the times of the graph's last launch. Used by the training thread. After Create, nothing blocks or
// allocates.
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
  // `stream` is the stream of the measured work. `device`, `stream` and `recorder` must outlive the phases.
  static absl::StatusOr<std::unique_ptr<StepPhases>> Create(Device& device, Stream& stream,
                                                            StepRecorder& recorder);

  // Sets the value of StrategyTraits::updates_here for the next steps; true at first. If it is false, no
  // update time is read from the device.
  void set_updates_here(bool updates_here) { updates_here_ = updates_here; }

  // The phases that run until the next Begin belong to `step`.
  void Begin(const StepInfo& step) { step_ = step; }

  // Runs `work` as a phase of the step. Errors are those of `work`.
  absl::Status Run(Phase phase, absl::FunctionRef<absl::Status()> work);

  // Returns the device's times of a step. Must be called after the step has ended and before the next step of
  // its parity begins. Absent on a synchronous device, whose times the host's clock measures.
  absl::StatusOr<std::optional<DeviceTimes>> OnDevice(const StepInfo& step) const;

  // The events for StepArenas::update_events.
  UpdateEvents update_events() const { return {events_[0].update.get(), events_[1].update.get()}; }

 private:
  // The events recorded in each step of one parity. Null on a synchronous device.
  struct Events {
    // One event for each phase, recorded at the end of the phase.
    std::array<std::unique_ptr<TimedEvent>, kPhases> ends;
    std::unique_ptr<TimedEvent> update;  // Recorded where the update begins (in kExchange).
  };

  StepPhases(Device& device, Stream& stream, StepRecorder& recorder)
      : device_(device), stream_(stream), recorder_(recorder) {}
  absl::Status CreateEvents();

  Device& device_;
  Stream& stream_;
  StepRecorder& recorder_;
  bool updates_here_ = true;
  bool timed_ = false;
  std::array<Events, 2> events_;  // Indexed by StepInfo::parity.
  StepInfo step_;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_STEP_PHASES_H_
