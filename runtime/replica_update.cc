#include "runtime/replica_update.h"

#include <utility>

namespace tethys {

ReplicaUpdate::ReplicaUpdate(std::unique_ptr<Optimizer> optimizer, const proto::Optimizer& config,
                             int64_t total_samples, int workers, Stream& stream, const Clock& clock)
    : optimizer_(std::move(optimizer)),
      config_(config),
      total_samples_(total_samples),
      workers_(workers),
      stream_(stream),
      clock_(clock) {}

void ReplicaUpdate::Prepare(const StepArenas& arenas) {
  const size_t slots = SlotNames(config_).size();
  if (slots_.size() != slots || arenas.arena_size != arenas_.arena_size) {
    slots_.clear();
    slot_pointers_.clear();
    for (size_t i = 0; i < slots; ++i) {
      slot_pointers_.push_back(slots_.emplace_back(arenas.arena_size).data());
    }
  }
  arenas_ = arenas;
}

absl::StatusOr<Nanoseconds> ReplicaUpdate::Apply(const StepInfo& step) {
  const Nanoseconds start = clock_.Now();
  const Update update = {
      .learning_rate = LearningRate(config_, step.schedule_position, total_samples_, workers_),
      .gradient_scale = 1.0 / static_cast<double>(step.global_sample_count)};
  const absl::Status updated =
      optimizer_->Apply(stream_, update, arenas_.parameters, arenas_.gradient_sums, slot_pointers_);
  if (!updated.ok()) return Annotate(updated, absl::StrCat("step ", step.step));
  return clock_.Now() - start;
}

std::vector<absl::Span<float>> ReplicaUpdate::slots() {
  std::vector<absl::Span<float>> spans;
  for (Arena& slot : slots_) spans.push_back(slot.span());
  return spans;
}

}  // namespace tethys
