// The rules of a consistency: which pushes are applied, in which updates, the divisor of an update, which
// steps may begin, and what the loss of a worker means. Each consistency is a class in a file of its own. Two
// programs use the rules: the parameter store applies them to the pushes that arrive, and the simulation of a
// job applies them to simulated pushes. So a prediction follows the rules of the run. The way in which
// batches reach the workers is a trait of the strategy's family (runtime/shape/shape_traits.h), which the
// chief's lease book uses. Pure: no clock, thread, parameters or gradients. Each server has an object of its
// own, used by one thread.
//
//   Open(step)       the first part of a push has arrived
//   Arrived(worker)  the whole push has arrived; returns the updates that are now due
//   Close(worker)    the push is applied and answered
//
//   consistency        an update has                     is due once                       is divided by
//   bulk-synchronous   one push of every worker          all have arrived                  their samples
//   asynchronous       one push                          it has arrived                    its samples, or
//                                                                                          the global batch
//   stale-synchronous  the pushes of one step that wait  their workers may begin the next  the samples of
//                                                                                          the step
//
// A new consistency needs a message in proto/job.proto, a file in this folder and a case in rule.cc.
#ifndef TETHYS_RUNTIME_CONSISTENCY_RULE_H_
#define TETHYS_RUNTIME_CONSISTENCY_RULE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The step in which a worker computed the gradients of a push.
struct PushedStep {
  int worker = 0;
  uint64_t step = 0;           // The number of the worker's earlier steps.
  uint64_t version = 0;        // Version of the parameters that the gradients were computed from.
  int64_t samples = 0;         // Samples of the push; 0: the push adds nothing to the update.
  int64_t global_samples = 0;  // Samples of the step on all workers.
  uint64_t position = 0;       // Position in the learning-rate schedule: samples used before the step.
};

// One update of the parameters, with the sum of the pushes of `workers`, in rank order.
struct DueUpdate {
  std::vector<int> workers = {};
  int64_t divisor = 0;  // In samples. 0: no push has a sample, so the parameters stay unchanged.
  bool operator==(const DueUpdate&) const = default;
};

// Invariants:
// 1. A worker has at most one open push, and may open the next only after that push is closed.
// 2. Updates are due in the order in which they are returned. The caller applies all of them, then answers
// and closes their pushes, before the next event.
class ConsistencyRule {
 public:
  virtual ~ConsistencyRule() = default;

  // True if each element is updated by itself, as soon as all workers' gradients of the element have arrived,
  // while gradients of other elements are still in transit. Then the push of a lost worker cannot be removed
  // from its step: the loss of a worker within a step ends the job, unless a new group undoes the whole step
  // (ParameterStore::StepBack). Under other consistencies the unapplied push of a lost worker is discarded.
  virtual bool lock_step() const { return false; }

  // Checks the first part of a push; the parameters are at `version`. OutOfRange: the push is not for the
  // worker's next step, or its gradients have an impossible version. InvalidArgument: the push's numbers of
  // samples or its position in the learning-rate schedule contradict the job or other pushes.
  virtual absl::Status Check(const PushedStep& push, uint64_t version) const = 0;
  void Open(const PushedStep& push) { workers_[push.worker] = {.open = true, .push = push}; }
  // True if parameters for the step may be sent to the worker; always true for a worker that takes no part.
  virtual bool MayBegin(int /*worker*/, uint64_t /*step*/) const { return true; }
  // The number of samples by which the sum of the open pushes of `workers` is divided, in one update.
  virtual int64_t Divisor(absl::Span<const int> workers) const = 0;

  // Arrived and TakesPart return the updates that are now due. The result is valid until the next call of one
  // of the two functions.
  virtual const std::vector<DueUpdate>& Arrived(int worker) = 0;
  // If `takes_part` is true, the worker takes part from its step number `clock` on. Otherwise the worker no
  // longer takes part, and no other worker waits for it.
  virtual const std::vector<DueUpdate>& TakesPart(int worker, bool takes_part, uint64_t clock);
  void Close(int worker);
  // Called when a new process replaces the worker's process: discards the worker's open push.
  virtual void Replaced(int worker) { Close(worker); }

 protected:
  explicit ConsistencyRule(int workers) : workers_(workers) {}

  struct Worker {
    bool open = false;
    bool arrived = false;  // True once all of the open push has arrived.
    PushedStep push;       // The open push, or the last one.
  };
  std::vector<Worker> workers_;
  std::vector<DueUpdate> due_;
};

// `global_batch`: samples of the job's global batch. Requires a completed configuration.
std::unique_ptr<ConsistencyRule> CreateRule(const proto::ParameterServer& config, int workers,
                                            int64_t global_batch);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CONSISTENCY_RULE_H_
