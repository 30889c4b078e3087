// The seam between training and exchange. A training step cannot tell under which strategy it runs: it
// announces gradients as backward makes them, enqueues the step's end and awaits it. Local, mirrored and
// parameter-server training, and every later strategy, implement this interface; workers/strategy_factory.cc
// is the one place that chooses.
//
//   strategy.BeginStep(step);
//   ... forward, backward; for each range, in ready order: strategy.GradientReady(i, event)
//   strategy.EnqueueEnd(step.parity);
//   done.Record(stream);
//   StepOutcome outcome = *strategy.AwaitEnd(step, done);
//
// The contract is asynchronous in form, as that of Device. If the host drives the exchange, it is complete
// when EnqueueEnd returns.
//
// Called by the training thread only; implementations may own threads of their own.
#ifndef TETHYS_RUNTIME_STRATEGY_H_
#define TETHYS_RUNTIME_STRATEGY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The parameters of one step. Positions count samples over the whole job: epoch x samples per epoch +
// position.
struct StepInfo {
  int64_t step = 0;  // Global step of this update (asynchronous: this worker's own count;
                     // stale-synchronous: its clock).
  int64_t epoch = 0;
  int64_t sample_begin = 0;  // First sample of this worker's batch.
  int64_t sample_count = 0;  // Samples of this worker's batch; 0 is allowed (the worker still takes part).
  int64_t global_sample_count = 0;  // Over all workers, bulk-synchronous and mirrored, 1 or more; else
                                    // sample_count.
  int64_t schedule_position = 0;    // Samples used before this update; the learning rate is a function of it.
  int parity = 0;                   // 0 or 1: in-flight steps differ in it.
};

// One per parity, recorded where a device begins the update of a step. Null: not needed.
using UpdateEvents = std::array<TimedEvent*, 2>;

// The memory a strategy works on: host pointers on a CPU, device pointers on a GPU. Not owned.
struct StepArenas {
  float* parameters = nullptr;     // arena_size elements, 64-byte aligned.
  float* gradient_sums = nullptr;  // Sums over the worker's samples, never means.
  int64_t arena_size = 0;
  UpdateEvents update_events = {};
};

struct StrategyTraits {
  // GradientReady and EnqueueEnd only enqueue stream work, the same for every step of a parity, and never
  // block. What differs from step to step is what BeginStep writes to the host memory of that parity. So one
  // graph can hold the whole step, and the next step may be enqueued before AwaitEnd. False: the host drives
  // the exchange, and each step ends before the next begins.
  bool stream_only = false;
  // Each BeginStep brings other parameters. False: only the first may.
  bool parameters_change_before_step = false;
  // The worker's device updates the parameters; they are not made by servers.
  bool updates_here = false;
};

struct StepOutcome {
  int64_t version = 0;        // Version of the parameters now held (updates they contain, least over shards).
  int64_t staleness = 0;      // Updates applied between this step's pull and its push, worst shard.
  Nanoseconds update_ns = 0;  // Spent in the optimizer on this worker.
  int64_t bytes_out = 0;      // Sent and received for this step, frames included.
  int64_t bytes_in = 0;
};

// When parameters change: in Prepare and Refresh; in the first BeginStep and, where the traits say so, in
// every one; between EnqueueEnd and the return of AwaitEnd. At no other time.
//
// After a failed step: FailedPrecondition means that a gradient was not finite. Where the traits say
// updates_here, parameters are then those before the step on every worker, and later enqueued steps have no
// effect. With servers the arena may mix parameters of two steps. After any other error parameters are
// unspecified. A strategy that has returned an error is only destroyed: no further call needs to succeed.
//
// Thread-compatible.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Memory of `elements` zeroed floats that this strategy exchanges best: the gradient arena should lie in
  // it. It lives as long as the strategy. Null: any memory serves as well. Called at most once, before
  // Prepare. Mirrored: collective, every rank calls it.
  virtual absl::StatusOr<float*> AllocateGradients(int64_t elements) {
    (void)elements;
    return nullptr;
  }

  // How gradients are exchanged, for logs and reports; empty where they are not.
  virtual std::string Describe() const { return ""; }

  // Called once per plan, before the first step. `ready_order` are disjoint ranges of the gradient arena in
  // the order in which backward will announce them; together they cover every variable. Parameters that live
  // on servers are in the arena when this returns; blocks until then.
  virtual absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                                 absl::Span<const Range> ready_order) = 0;

  // Begins a step. At most two are in flight, with different parities; only one unless stream_only. Blocks
  // only where it brings parameters, with the errors of EnqueueEnd. InvalidArgument: no worker has a sample.
  virtual absl::Status BeginStep(const StepInfo& step) = 0;

  // Range `index` of ready_order holds its final sums once `event` has happened (always, on a CPU). Called
  // exactly once for each range, in ready order, also for a batch without samples. May start to send; never
  // blocks. Unavailable: the connection has broken.
  virtual absl::Status GradientReady(int64_t index, const Event& event) = 0;

  // Enqueues what remains of the step behind backward. Where the host drives the exchange, blocks under a
  // deadline until it is made. DeadlineExceeded names the ranks or servers it waited for; Aborted: the
  // membership changed; FailedPrecondition: see above.
  virtual absl::Status EnqueueEnd(int parity) = 0;

  // Awaits the oldest step whose end was enqueued; `done` was recorded behind all of its work. Blocks under a
  // deadline until the step is made. Then the host may overwrite gradient_sums (stream work that is
  // enqueued later may do so earlier), and the parameters of the next step are in the arena, unless BeginStep
  // brings them. Errors as those of EnqueueEnd.
  virtual absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) = 0;

  // Brings the parameters up to date with all updates of all workers; a no-op unless servers update
  // asynchronously or stale-synchronously. Called at barriers only, with no step in flight. Blocks under a
  // deadline; errors as those of EnqueueEnd.
  virtual absl::Status Refresh() = 0;

  // Optimizer slots held on this worker, device memory as the arenas, in the optimizer's order; empty where
  // servers hold them.
  virtual std::vector<absl::Span<float>> slots() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_STRATEGY_H_
