#include "runtime/replica_update.h"

#include <utility>

namespace tethys {

std::vector<NamedRange> TrainableRanges(const VariableSet& variables) {
  std::vector<NamedRange> ranges;
  for (const Variable& variable : variables.variables()) {
    if (variable.trainable) ranges.push_back({variable.name, variable.range});
  }
  return ranges;
}

absl::StatusOr<ReplicaUpdate> ReplicaUpdate::Create(const proto::Optimizer& config,
                                                    const std::vector<NamedRange>& ranges,
                                                    LearningRateSchedule schedule, Device& device,
                                                    Stream& stream, const Clock& clock) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                          CreateOptimizer(config, device, MakeUpdateRegions(config, ranges)));
  return ReplicaUpdate(std::move(optimizer), std::move(schedule), stream, clock);
}

ReplicaUpdate::ReplicaUpdate(std::unique_ptr<Optimizer> optimizer, LearningRateSchedule schedule,
                             Stream& stream, const Clock& clock)
    : optimizer_(std::move(optimizer)), schedule_(std::move(schedule)), stream_(stream), clock_(clock) {}

absl::Status ReplicaUpdate::Prepare(const StepArenas& arenas) {
  if (arenas.arena_size != arenas_.arena_size) {
    TETHYS_ASSIGN_OR_RETURN(slots_, optimizer_->AllocateSlots(arenas.arena_size));
    slot_pointers_.clear();
    for (const auto& slot : slots_) slot_pointers_.push_back(slot->floats());
  }
  arenas_ = arenas;
  return absl::OkStatus();
}

void ReplicaUpdate::SetRates(const StepInfo& step) { optimizer_->SetRates(step.parity, MakeUpdate(step)); }

absl::StatusOr<Nanoseconds> ReplicaUpdate::Enqueue(int parity) {
  const Nanoseconds start = clock_.Now();
  if (TimedEvent* begin = arenas_.update_events[parity]; begin != nullptr) {
    TETHYS_RETURN_IF_ERROR(begin->Record(stream_));
  }
  TETHYS_RETURN_IF_ERROR(
      optimizer_->Enqueue(stream_, parity, {}, arenas_.parameters, arenas_.gradient_sums, slot_pointers_));
  return clock_.Now() - start;
}

absl::Status ReplicaUpdate::Check(const StepInfo& step) const {
  const absl::Status status = optimizer_->Check(step.parity);
  return status.ok() ? status : Annotate(status, absl::StrCat("step ", step.step));
}

Update ReplicaUpdate::MakeUpdate(const StepInfo& step) const {
  return {.learning_rate = schedule_.At(step.schedule_position),
          .gradient_scale = 1.0 / static_cast<double>(step.global_sample_count),
          .number = step.step + 1};
}

std::vector<absl::Span<float>> ReplicaUpdate::slots() {
  std::vector<absl::Span<float>> spans;
  for (float* slot : slot_pointers_) spans.emplace_back(slot, static_cast<size_t>(arenas_.arena_size));
  return spans;
}

}  // namespace tethys
