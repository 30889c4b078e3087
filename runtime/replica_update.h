// The update of a replica that holds all parameters: local and mirrored training make it from the gradient
// sums over the global batch. Owns the optimizer's slots. Used by one thread, the training thread.
#ifndef TETHYS_RUNTIME_REPLICA_UPDATE_H_
#define TETHYS_RUNTIME_REPLICA_UPDATE_H_

#include <memory>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/base/clock.h"
#include "runtime/optim/optimizer.h"
#include "runtime/strategy.h"

namespace tethys {

class ReplicaUpdate {
 public:
  // `optimizer` was made from `config` for all variables of the arena; learning rates are those of `workers`
  // workers and `total_samples` samples of the whole job. `stream` and `clock` outlive the update.
  ReplicaUpdate(std::unique_ptr<Optimizer> optimizer, const proto::Optimizer& config, int64_t total_samples,
                int workers, Stream& stream, const Clock& clock);

  // Sets the arenas of later updates. Another plan of the same arena size keeps the slots.
  absl::Status Prepare(const StepArenas& arenas);

  // Writes the step's learning rate and 1 / step.global_sample_count, which is at least 1, to the host memory
  // of its parity. Called before Enqueue.
  void SetRates(const StepInfo& step);
  // Enqueues the update: the same stream work in every step of a parity. Returns the host's time for it,
  // which is that of the whole update on a device that reads host memory.
  absl::StatusOr<Nanoseconds> Enqueue(int parity);
  // Called once the update has happened. FailedPrecondition names the step: a gradient is not finite, and
  // nothing was changed.
  absl::Status Check(const StepInfo& step) const;

  // The optimizer's slots, device memory as the arenas.
  std::vector<absl::Span<float>> slots();

 private:
  Update MakeUpdate(const StepInfo& step) const;

  std::unique_ptr<Optimizer> optimizer_;
  proto::Optimizer config_;
  int64_t total_samples_;
  int workers_;
  Stream& stream_;
  const Clock& clock_;

  StepArenas arenas_;
  std::vector<std::unique_ptr<Buffer>> slots_;
  std::vector<float*> slot_pointers_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REPLICA_UPDATE_H_
