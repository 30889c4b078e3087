// Tells where the time of a step goes: the recorder, what the host spent; a profiler, by name; and of a
// device that goes on alone, by events on its stream, what each phase took there, once the step has happened.
//
//   phases.Begin(step);
//   phases.Run(Phase::kForward, [&] { return plan.Forward(); });   // and every other phase, in order
//   ...
//   phases.OnDevice(step)                                          // once it has happened
//
// Run puts the same on the stream in every step of a turn, so a graph may hold it; times are then those of
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
  // Work is on `stream`. `updates_here`: the strategy has the device update the parameters. What is borrowed
  // outlives the phases.
  static absl::StatusOr<std::unique_ptr<StepPhases>> Create(Device& device, Stream& stream,
                                                            StepRecorder& recorder, bool updates_here);

  // What follows, until the next Begin, is of this step.
  void Begin(const StepInfo& step) { step_ = step; }

  // `work` is a phase of the step; its errors.
  absl::Status Run(Phase phase, absl::FunctionRef<absl::Status()> work);

  // Of a step that has happened, before the next of its turn begins. Absent where the host's times tell all.
  absl::StatusOr<std::optional<DeviceTimes>> OnDevice(const StepInfo& step) const;

  // For StepArenas.
  UpdateEvents update_events() const { return {turns_[0].update.get(), turns_[1].update.get()}; }

 private:
  // Recorded in each step of a turn; null where the host's times tell all.
  struct Events {
    std::array<std::unique_ptr<TimedEvent>, kPhases> ends;  // Of each phase.
    std::unique_ptr<TimedEvent> update;                     // Where it begins, within kExchange.
  };

  StepPhases(Device& device, Stream& stream, StepRecorder& recorder, bool updates_here)
      : device_(device), stream_(stream), recorder_(recorder), updates_here_(updates_here) {}
  absl::Status CreateEvents();

  Device& device_;
  Stream& stream_;
  StepRecorder& recorder_;
  const bool updates_here_;
  bool timed_ = false;
  std::array<Events, 2> turns_;
  StepInfo step_;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_STEP_PHASES_H_
