// A strategy that is interrupted in its first step. Tests use it to check what later calls of the strategy
// return.
#ifndef TETHYS_TESTS_WORKERS_INTERRUPTED_STRATEGY_H_
#define TETHYS_TESTS_WORKERS_INTERRUPTED_STRATEGY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/strategy.h"

namespace tethys {

// Forwards every call to `inner`, and interrupts `inner` before it forwards the first call of the kind `at`.
class InterruptedStrategy final : public Strategy {
 public:
  enum class At { kBeginStep, kGradientReady, kEnqueueEnd, kAwaitEnd };
  static absl::Status Reason() { return absl::AbortedError("the group of workers changes"); }

  InterruptedStrategy(std::unique_ptr<Strategy> inner, At at) : inner_(std::move(inner)), at_(at) {}

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range> order) override {
    return inner_->Prepare(arenas, order);
  }
  absl::Status BeginStep(const StepInfo& step) override {
    InterruptAt(At::kBeginStep);
    return inner_->BeginStep(step);
  }
  absl::Status GradientReady(int64_t index, const Event& event) override {
    InterruptAt(At::kGradientReady);
    return inner_->GradientReady(index, event);
  }
  absl::Status EnqueueEnd(int parity) override {
    InterruptAt(At::kEnqueueEnd);
    return inner_->EnqueueEnd(parity);
  }
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) override {
    InterruptAt(At::kAwaitEnd);
    return inner_->AwaitEnd(step, done);
  }
  absl::Status Refresh() override { return inner_->Refresh(); }
  std::vector<absl::Span<float>> slots() override { return inner_->slots(); }
  void Interrupt(const absl::Status& status) override { inner_->Interrupt(status); }

 private:
  void InterruptAt(At call) {
    if (call == at_) inner_->Interrupt(Reason());
  }

  const std::unique_ptr<Strategy> inner_;
  const At at_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_INTERRUPTED_STRATEGY_H_
