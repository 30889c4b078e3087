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

absl::Status OptimizerSlots::Allocate(Optimizer& optimizer, int64_t elements) {
  if (elements == elements_) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(buffers_, optimizer.AllocateSlots(elements));
  elements_ = elements;
  pointers_.clear();
  for (const auto& buffer : buffers_) pointers_.push_back(buffer->floats());
  return absl::OkStatus();
}

std::vector<absl::Span<float>> OptimizerSlots::spans() const {
  std::vector<absl::Span<float>> spans;
  for (float* slot : pointers_) spans.emplace_back(slot, static_cast<size_t>(elements_));
  return spans;
}

absl::StatusOr<ReplicaUpdate> ReplicaUpdate::Create(const proto::Optimizer& config,
                                                    const std::vector<NamedRange>& ranges,
                                                    LearningRateSchedule schedule, Device& device,
                                                    Stream& stream, const Clock& clock,
                                                    std::shared_ptr<OptimizerSlots> slots) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                          CreateOptimizer(config, device, MakeUpdateRegions(config, ranges)));
  return ReplicaUpdate(std::move(optimizer), std::move(schedule), stream, clock, std::move(slots));
}

ReplicaUpdate::ReplicaUpdate(std::unique_ptr<Optimizer> optimizer, LearningRateSchedule schedule,
                             Stream& stream, const Clock& clock, std::shared_ptr<OptimizerSlots> slots)
    : optimizer_(std::move(optimizer)),
      schedule_(std::move(schedule)),
      stream_(stream),
      clock_(clock),
      slots_(slots != nullptr ? std::move(slots) : std::make_shared<OptimizerSlots>()) {}

absl::Status ReplicaUpdate::Prepare(const StepArenas& arenas) {
  TETHYS_RETURN_IF_ERROR(slots_->Allocate(*optimizer_, arenas.arena_size));
  arenas_ = arenas;
  return absl::OkStatus();
}

void ReplicaUpdate::SetRates(const StepInfo& step) { optimizer_->SetRates(step.parity, MakeUpdate(step)); }

absl::StatusOr<Nanoseconds> ReplicaUpdate::Enqueue(int parity) {
  const Nanoseconds start = clock_.Now();
  if (TimedEvent* begin = arenas_.update_events[parity]; begin != nullptr) {
    TETHYS_RETURN_IF_ERROR(begin->Record(stream_));
  }
  TETHYS_RETURN_IF_ERROR(optimizer_->Enqueue(stream_, parity, {}, arenas_.parameters, arenas_.gradient_sums,
                                             slots_->pointers()));
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

}  // namespace tethys
