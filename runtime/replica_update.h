// Updates the parameters of a replica that holds all parameters, as in local and mirrored training. The
// update is computed from the gradient sums over the global batch. Used by the training thread only.
#ifndef TETHYS_RUNTIME_REPLICA_UPDATE_H_
#define TETHYS_RUNTIME_REPLICA_UPDATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/strategy.h"

namespace tethys {

// The ranges of the trainable variables in the arena.
std::vector<NamedRange> TrainableRanges(const VariableSet& variables);

// The optimizer's slots: state per parameter, such as velocity. The slots may outlive a ReplicaUpdate: when
// the workers form a new group, the ReplicaUpdate of the new group continues with the same slots.
class OptimizerSlots {
 public:
  // Allocates the slots of `optimizer` for an arena of `elements` elements, with their initial values. Keeps
  // existing slots of this size.
  absl::Status Allocate(Optimizer& optimizer, int64_t elements);

  // The slots, in the optimizer's order; empty before Allocate. Like the arenas, they are device memory.
  const std::vector<float*>& pointers() const { return pointers_; }
  std::vector<absl::Span<float>> spans() const;

 private:
  int64_t elements_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<float*> pointers_;
};

class ReplicaUpdate {
 public:
  // Creates an update of `ranges`: all trainable variables, or the parts of them that this worker updates.
  // `device`, `stream` and `clock` must outlive the ReplicaUpdate. `slots` may have been used by an earlier
  // update with the same `config`; null: the update has slots of its own. Has the errors of CreateOptimizer.
  static absl::StatusOr<ReplicaUpdate> Create(const proto::Optimizer& config,
                                              const std::vector<NamedRange>& ranges,
                                              LearningRateSchedule schedule, Device& device, Stream& stream,
                                              const Clock& clock,
                                              std::shared_ptr<OptimizerSlots> slots = nullptr);
  // Uses an optimizer that was created for the ranges to be updated. `stream` and `clock` must outlive the
  // ReplicaUpdate.
  ReplicaUpdate(std::unique_ptr<Optimizer> optimizer, LearningRateSchedule schedule, Stream& stream,
                const Clock& clock, std::shared_ptr<OptimizerSlots> slots = nullptr);

  // Sets the arenas of later updates. Keeps the slots if the arena size is unchanged.
  absl::Status Prepare(const StepArenas& arenas);

  // Writes the step's learning rate and 1 / step.global_sample_count to the host memory of the step's parity
  // (StepInfo::parity). Requires step.global_sample_count to be at least 1. Called before Enqueue.
  void SetRates(const StepInfo& step);
  // Enqueues the update: the same stream work in every step of one parity. Returns how long the call took. On
  // a CPU device the call takes as long as the update.
  absl::StatusOr<Nanoseconds> Enqueue(int parity);
  // The value of StrategyTraits::refused.
  const int32_t* refused() const { return optimizer_->refused(); }
  // Called once the update has run. FailedPrecondition names the step: a gradient was not finite, and the
  // update changed nothing.
  absl::Status Check(const StepInfo& step) const;

  // Optimizer::Refuse and Optimizer::outcome.
  void Refuse() { optimizer_->Refuse(); }
  Optimizer::Outcome outcome(int parity) const { return optimizer_->outcome(parity); }

  // The optimizer's slots.
  std::vector<absl::Span<float>> slots() { return slots_->spans(); }

 private:
  Update MakeUpdate(const StepInfo& step) const;

  std::unique_ptr<Optimizer> optimizer_;
  LearningRateSchedule schedule_;
  Stream& stream_;
  const Clock& clock_;

  StepArenas arenas_;
  std::shared_ptr<OptimizerSlots> slots_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REPLICA_UPDATE_H_
