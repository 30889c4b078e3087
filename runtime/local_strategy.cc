#include "runtime/local_strategy.h"

#include <array>
#include <utility>

#include "runtime/await_device.h"
#include "runtime/base/interruption.h"

namespace tethys {
namespace {

class LocalStrategy final : public Strategy {
 public:
  LocalStrategy(ReplicaUpdate update, const Clock& clock, Nanoseconds step_timeout)
      : update_(std::move(update)), clock_(clock), step_timeout_(step_timeout) {}

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range>) override {
    TETHYS_RETURN_IF_ERROR(interruption_.Check());
    TETHYS_RETURN_IF_ERROR(update_.Prepare(arenas));
    return StrategyTraits{.stream_only = true, .updates_here = true, .refused = update_.refused()};
  }

  absl::Status BeginStep(const StepInfo& step) override {
    TETHYS_RETURN_IF_ERROR(interruption_.Check());
    if (step.global_sample_count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step.step, " has no samples"));
    }
    update_.SetRates(step);
    return absl::OkStatus();
  }

  absl::Status GradientReady(int64_t, const Event&) override { return interruption_.Check(); }

  absl::Status EnqueueEnd(int parity) override {
    TETHYS_RETURN_IF_ERROR(interruption_.Check());
    TETHYS_ASSIGN_OR_RETURN(update_ns_[parity], update_.Enqueue(parity));
    return absl::OkStatus();
  }

  // The device completes the step without other processes, so an interrupt does not end this wait.
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) override {
    TETHYS_RETURN_IF_ERROR(AwaitDevice(done, step_timeout_, clock_));
    TETHYS_RETURN_IF_ERROR(update_.Check(step));
    return StepOutcome{.version = step.step + 1, .update_ns = update_ns_[step.parity]};
  }

  absl::Status Refresh() override { return interruption_.Check(); }

  std::vector<absl::Span<float>> slots() override { return update_.slots(); }

  void Interrupt(const absl::Status& status) override { interruption_.Raise(status); }

 private:
  ReplicaUpdate update_;
  const Clock& clock_;
  const Nanoseconds step_timeout_;
  // For each parity of the step, the duration of the call that enqueued the update.
  std::array<Nanoseconds, 2> update_ns_ = {};
  Interruption interruption_;
};

}  // namespace

std::unique_ptr<Strategy> CreateLocalStrategy(ReplicaUpdate update, const Clock& clock,
                                              Nanoseconds step_timeout) {
  return std::make_unique<LocalStrategy>(std::move(update), clock, step_timeout);
}

}  // namespace tethys
