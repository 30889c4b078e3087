#include "runtime/local_strategy.h"

#include <sched.h>

#include <utility>

#include "runtime/replica_update.h"

namespace tethys {
namespace {

class LocalStrategy final : public Strategy, private StreamedSteps {
 public:
  LocalStrategy(ReplicaUpdate update, const Clock& clock, Nanoseconds step_timeout)
      : update_(std::move(update)), clock_(clock), step_timeout_(step_timeout) {}

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range>) override {
    TETHYS_RETURN_IF_ERROR(update_.Prepare(arenas));
    return StrategyTraits{.streamed = this};
  }

  absl::Status BeginStep(const StepInfo& step) override {
    if (step.global_sample_count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step.step, " has no samples"));
    }
    step_ = step;
    update_.SetRates(step);  // For PutUpdate.
    return absl::OkStatus();
  }

  absl::Status GradientReady(int64_t, const Event&) override { return absl::OkStatus(); }

  absl::Status PutUpdate(int turn) override { return update_.Put(turn); }

  absl::StatusOr<StepOutcome> AwaitStep(const StepInfo& step, const Event& done) override {
    const Nanoseconds deadline = clock_.Now() + step_timeout_;
    while (true) {
      TETHYS_ASSIGN_OR_RETURN(const bool happened, done.Happened());
      if (happened) break;
      if (clock_.Now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("the device did not finish the step within ", ToSeconds(step_timeout_),
                         " s (timeouts.step): it hangs, or computes longer than that; raise timeouts.step if "
                         "it is only slow"));
      }
      sched_yield();
    }
    TETHYS_RETURN_IF_ERROR(update_.Check(step));
    return StepOutcome{.version = step.step + 1};
  }

  absl::StatusOr<StepOutcome> FinishStep() override {
    TETHYS_ASSIGN_OR_RETURN(const Nanoseconds update_ns, update_.Apply(step_));
    return StepOutcome{.version = step_.step + 1, .update_ns = update_ns};
  }

  absl::Status Refresh() override { return absl::OkStatus(); }

  std::vector<absl::Span<float>> slots() override { return update_.slots(); }

 private:
  ReplicaUpdate update_;
  const Clock& clock_;
  const Nanoseconds step_timeout_;
  StepInfo step_;
};

}  // namespace

std::unique_ptr<Strategy> CreateLocalStrategy(std::unique_ptr<Optimizer> optimizer,
                                              const proto::Optimizer& config, int64_t total_samples,
                                              int workers, Stream& stream, const Clock& clock,
                                              Nanoseconds step_timeout) {
  return std::make_unique<LocalStrategy>(
      ReplicaUpdate(std::move(optimizer), config, total_samples, workers, stream, clock), clock,
      step_timeout);
}

}  // namespace tethys
