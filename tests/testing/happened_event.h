// The end of a step for tests that drive a strategy on host memory by hand.
#ifndef TETHYS_TESTS_TESTING_HAPPENED_EVENT_H_
#define TETHYS_TESTS_TESTING_HAPPENED_EVENT_H_

#include "runtime/strategy.h"

namespace tethys {

// Every event of a CPU: it has happened.
class HappenedEvent final : public Event {
 public:
  absl::Status Record(Stream&) override { return absl::OkStatus(); }
  absl::Status Wait(Stream&) const override { return absl::OkStatus(); }
  absl::StatusOr<bool> Happened() const override { return true; }
};

// Ends a step before the next begins.
inline absl::StatusOr<StepOutcome> EndStep(Strategy& strategy, const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(strategy.EnqueueEnd(step.parity));
  return strategy.AwaitEnd(step, HappenedEvent());
}

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_HAPPENED_EVENT_H_
