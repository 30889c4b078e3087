// Ends a step of a strategy, for tests that call the strategy's methods directly, on host memory.
#ifndef TETHYS_TESTS_TESTING_HAPPENED_EVENT_H_
#define TETHYS_TESTS_TESTING_HAPPENED_EVENT_H_

#include "runtime/strategy.h"

namespace tethys {

// An event of the CPU device, where work is done as soon as it is enqueued.
class HappenedEvent final : public Event {
 public:
  absl::Status Record(Stream&) override { return absl::OkStatus(); }
  absl::Status Wait(Stream&) const override { return absl::OkStatus(); }
  absl::StatusOr<bool> Happened() const override { return true; }
};

// Enqueues the end of a step and awaits it, before the next step begins.
inline absl::StatusOr<StepOutcome> EndStep(Strategy& strategy, const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(strategy.EnqueueEnd(step.parity));
  return strategy.AwaitEnd(step, HappenedEvent());
}

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_HAPPENED_EVENT_H_
