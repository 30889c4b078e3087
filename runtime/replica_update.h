// The update of a replica that holds all parameters: what local and mirrored training do once the gradient
// sums over the global batch are there. Owns the optimizer's slots. Used by one thread, the training thread.
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

  // The arenas from now on. A second plan (another number of rows) goes on with the same slots.
  absl::Status Prepare(const StepArenas& arenas);

  // Divides by step.global_sample_count, which is at least 1. Returns the time it took. FailedPrecondition
  // names the step: a gradient is not finite, and nothing was changed. Blocks until that is known.
  absl::StatusOr<Nanoseconds> Apply(const StepInfo& step);

  // The parts of Apply, as those of Optimizer::Apply: before the step's work is put on the stream; on the
  // stream, the same work in every step of a turn; once it has happened.
  void SetRates(const StepInfo& step);
  absl::Status Put(int turn);
  absl::Status Check(const StepInfo& step) const;

  // Device memory, as the arenas.
  std::vector<absl::Span<float>> slots();

 private:
  Update MakeUpdate(const StepInfo& step) const;
  absl::Status RecordBegin(int turn);

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
