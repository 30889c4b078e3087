#include "runtime/local_strategy.h"

#include <utility>

#include "runtime/tensor/arena.h"

namespace tethys {
namespace {

class LocalStrategy final : public Strategy {
 public:
  LocalStrategy(std::unique_ptr<Optimizer> optimizer, const proto::Optimizer& config, int64_t total_samples,
                int workers, Stream& stream, const Clock& clock)
      : optimizer_(std::move(optimizer)),
        config_(config),
        total_samples_(total_samples),
        workers_(workers),
        stream_(stream),
        clock_(clock) {}

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas, absl::Span<const Range>) override {
    const size_t slots = SlotNames(config_).size();
    // A second plan (another number of rows) goes on with the same slots.
    if (slots_.size() != slots || arenas.arena_size != arenas_.arena_size) {
      slots_.clear();
      slot_pointers_.clear();
      for (size_t i = 0; i < slots; ++i)
        slot_pointers_.push_back(slots_.emplace_back(arenas.arena_size).data());
    }
    arenas_ = arenas;
    return StrategyTraits();
  }

  absl::Status BeginStep(const StepInfo& step) override {
    if (step.global_sample_count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step.step, " has no samples"));
    }
    step_ = step;
    return absl::OkStatus();
  }

  absl::Status GradientReady(int64_t, const Event&) override { return absl::OkStatus(); }

  absl::StatusOr<StepOutcome> FinishStep() override {
    const Nanoseconds start = clock_.Now();
    const double rate = LearningRate(config_, step_.schedule_position, total_samples_, workers_);
    const double gradient_scale = 1.0 / static_cast<double>(step_.global_sample_count);
    const absl::Status updated = optimizer_->Apply(stream_, rate, gradient_scale, arenas_.parameters,
                                                   arenas_.gradient_sums, slot_pointers_);
    if (!updated.ok()) return Annotate(updated, absl::StrCat("step ", step_.step));
    return StepOutcome{.version = step_.step + 1, .update_ns = clock_.Now() - start};
  }

  absl::Status Refresh() override { return absl::OkStatus(); }

  std::vector<absl::Span<float>> slots() override {
    std::vector<absl::Span<float>> spans;
    for (Arena& slot : slots_) spans.push_back(slot.span());
    return spans;
  }

 private:
  const std::unique_ptr<Optimizer> optimizer_;
  const proto::Optimizer config_;
  const int64_t total_samples_;
  const int workers_;
  Stream& stream_;
  const Clock& clock_;

  StepArenas arenas_;
  std::vector<Arena> slots_;
  std::vector<float*> slot_pointers_;
  StepInfo step_;
};

}  // namespace

std::unique_ptr<Strategy> CreateLocalStrategy(std::unique_ptr<Optimizer> optimizer,
                                              const proto::Optimizer& config, int64_t total_samples,
                                              int workers, Stream& stream, const Clock& clock) {
  return std::make_unique<LocalStrategy>(std::move(optimizer), config, total_samples, workers, stream, clock);
}

}  // namespace tethys
