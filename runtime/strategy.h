// The interface between training and gradient exchange. A training step is the same under every strategy: it
// announces gradients as backward computes them, enqueues the end of the step and waits for the end. Local,
// mirrored and parameter-server training implement this interface, and every later strategy will. Only
// workers/strategy_factory.cc chooses a strategy.
//
//   strategy.BeginStep(step);
//   ... forward, backward; for each range, in ready order: strategy.GradientReady(i, event)
//   strategy.EnqueueEnd(step.parity);
//   done.Record(stream);
//   StepOutcome outcome = *strategy.AwaitEnd(step, done);
//
// If StrategyTraits::stream_only is true, the calls only enqueue work on the device's stream, and the next
// step may begin before AwaitEnd of the current step. Otherwise the host itself sends and receives, and the
// exchange is complete when EnqueueEnd returns.
//
// Called by the training thread only, except for Interrupt; implementations may own threads of their own.
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
#include "runtime/device/stream_communicator.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The numbers of one step that a strategy needs. Samples are numbered over the whole job: epoch x samples per
// epoch + position in the epoch.
struct StepInfo {
  // Global number of this step. Asynchronous: the number of this worker's earlier steps. Stale-synchronous:
  // the number of this worker's step (LeaseRange.clock).
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t sample_begin = 0;  // Number of the first sample in this worker's batch.
  int64_t sample_count = 0;  // Samples of this worker's batch; 0 is allowed (the worker still takes part).
  // Samples of all workers' batches in this step, 1 or more. Asynchronous: equal to sample_count.
  int64_t global_sample_count = 0;
  // Workers in lock step, among which global_sample_count is split. 0: each batch is a step of its own.
  int workers = 1;
  // Samples used before this update; the learning rate is a function of this number.
  int64_t schedule_position = 0;
  int parity = 0;  // 0 or 1. The two steps that may be in flight have different parities.
};

// One event per parity, recorded where the device begins a step's update. Null if the event is not needed.
using UpdateEvents = std::array<TimedEvent*, 2>;

// The memory a strategy works on: host pointers on a CPU, device pointers on a GPU. Not owned.
struct StepArenas {
  float* parameters = nullptr;     // arena_size elements, 64-byte aligned.
  float* gradient_sums = nullptr;  // Sums over the worker's samples, never means.
  int64_t arena_size = 0;
  UpdateEvents update_events = {};
};

struct StrategyTraits {
  // True: GradientReady and EnqueueEnd only enqueue stream work, which is the same for every step of one
  // parity, and never block. Only the values that BeginStep writes to the host memory of that parity differ.
  // So a captured graph (Device::Capture) can contain a whole step, and the next step may be enqueued before
  // AwaitEnd. False: the host drives the exchange, and each step ends before the next begins.
  bool stream_only = false;
  // True: work on the stream may wait for other workers. False: the stream completes its work by itself.
  bool stream_exchanges = false;
  // True: every BeginStep may change the parameters. False: only the first BeginStep may.
  bool parameters_change_before_step = false;
  // True: the strategy updates the parameters on this worker's device. False: servers or the caller update
  // them.
  bool updates_here = false;
  // Device memory that is not 0 once the device has refused the update of a step because a gradient was not
  // finite. Null: EnqueueEnd itself, or a server, returns the error.
  const int32_t* refused = nullptr;
};

// The gradient noise (runtime/telemetry/gradient_noise.h) is measured in steps whose number is a multiple of
// kNoiseSteps, so that the measurement costs below 0.5 % of the time.
constexpr int64_t kNoiseSteps = 16;

struct StepOutcome {
  int64_t version = 0;        // Number of updates in this worker's parameters (minimum over shards).
  int64_t staleness = 0;      // Updates applied between this step's pull and push (maximum over shards).
  Nanoseconds update_ns = 0;  // How long the optimizer's call took; on a CPU device, as long as the update.
  int64_t bytes_out = 0;      // Bytes sent for this step, including frame headers.
  int64_t bytes_in = 0;       // Bytes received for this step, including frame headers.
  // The squared norm of this worker's gradient sums, and the squared norm of the sums over all workers. Both
  // 0: not measured. They are measured in every kNoiseSteps-th step, before the sums are scaled or clipped.
  double own_square = 0;
  double sum_square = 0;
};

// The strategy changes parameters only in Prepare, in Refresh, in the first BeginStep (in every BeginStep if
// parameters_change_before_step), and from the call of EnqueueEnd to the return of AwaitEnd. If workers hold
// the parameters, the caller writes parameters and slots, equal on all ranks, between Prepare and the first
// step.
//
// A gradient that is not finite fails the step with FailedPrecondition. (With the same code, a server refuses
// a worker that was declared lost.) If updates_here is true, every worker then holds the parameters from
// before that step, and steps that were already enqueued have no effect. If servers update, the arena may mix
// parameters of two steps. After any other error the parameters are unspecified. After an error, only these
// calls are allowed: Refresh, which returns the error again, Halt, EndWork and the destructor.
//
// Thread-compatible; any thread may call Interrupt.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Allocates `elements` zeroed floats for the gradient arena, in the memory that this strategy exchanges
  // fastest. The memory lives as long as the strategy. Returns null if any other memory is as fast. Called at
  // most once, before Prepare. In mirrored training the call is collective: every rank makes it.
  virtual absl::StatusOr<float*> AllocateGradients(int64_t elements) {
    (void)elements;
    return nullptr;
  }

  // For logs and reports: how gradients are exchanged; empty if they are not exchanged.
  virtual std::string Describe() const { return ""; }

  // Returns the reducer that sums arrays over all workers, for layers that normalise the batches of all
  // workers as one batch; all workers must compute the same sums in each step. Usable after Prepare, while
  // the strategy lives. Null: layers use the batch of this worker.
  virtual StreamReducer* worker_sums() { return nullptr; }

  // Called once per Plan (runtime/nn/plan.h), before the first step. `ready_order` are disjoint ranges of the
  // gradient arena in the order in which backward will announce them; together they cover every variable. If
  // servers hold the parameters, blocks until the arena holds a copy of them.
  virtual absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                                 absl::Span<const Range> ready_order) = 0;

  // Begins a step. At most two steps are in flight, with different parities; at most one unless stream_only.
  // Blocks only while it fetches parameters, and then has the errors of EnqueueEnd. Requires that at least
  // one worker has a sample.
  virtual absl::Status BeginStep(const StepInfo& step) = 0;

  // Announces that range `index` of ready_order holds its final sums once `event` has happened (on a CPU it
  // always has). Called exactly once for each range of a step, in ready order, even for a batch without
  // samples. May start to send; never blocks. An error ends the step, so backward need not go on. The error
  // is the one that EnqueueEnd would return.
  virtual absl::Status GradientReady(int64_t index, const Event& event) = 0;

  // Enqueues the rest of the step after backward. If the host drives the exchange, blocks until the exchange
  // is complete or a deadline has passed. DeadlineExceeded names the ranks or servers that the step waited
  // for. Unavailable: a rank or server is lost. Aborted: a newer connection of this worker has taken over.
  // FailedPrecondition: a gradient was not finite (see the class comment).
  virtual absl::Status EnqueueEnd(int parity) = 0;

  // Blocks until the oldest step whose end was enqueued is complete, or a deadline has passed. `done` must
  // have been recorded after all work of that step. Afterwards the host may overwrite gradient_sums (stream
  // work that was enqueued after the step may overwrite them even before), and the arena holds the parameters
  // of the next step, unless BeginStep fetches them. Has the errors of EnqueueEnd.
  virtual absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) = 0;

  // Brings the parameters up to date with all updates of all workers; a no-op unless servers update
  // asynchronously or stale-synchronously. Called between segments (at barriers) only, with no step in
  // flight. Blocks until the parameters are up to date or a deadline has passed. Has the errors of
  // EnqueueEnd. After an error of the exchange, returns that error at once: this lets the caller distinguish
  // a failed exchange from other failures of a step.
  virtual absl::Status Refresh() = 0;

  // The optimizer slots that this worker holds, in the optimizer's order; empty if servers hold them. They
  // are device memory, as the arenas are. Valid after Prepare; the caller may read and write them while no
  // step is in flight.
  virtual std::vector<absl::Span<float>> slots() = 0;

  // Ends the waits for other processes: every blocked or later call returns an error with the code and the
  // message of `status` (perhaps with a prefix) soon, within 50 ms on an idle machine, even if other
  // processes are stopped or unreachable. Calls return the first error if the strategy has already failed.
  // Other processes are told nothing; for them, this worker is lost. `status` is an error; only the first
  // call counts.
  //
  // Work that needs no other process goes on, so that the caller can always tell which steps were made. If
  // the host drives the exchange: after EnqueueEnd has returned OK, AwaitEnd returns the outcome of the step,
  // which is made; after EnqueueEnd has failed, the step is not made on this worker. If stream_only is true,
  // GradientReady and EnqueueEnd, which never block, go on, and AwaitEnd returns the outcome of a step that
  // the device has completed, and an error for a step that may still be made on the device (see Halt); a
  // local strategy completes every step whose end was enqueued.
  //
  // Does not block. The caller makes sure that the strategy is not destroyed meanwhile.
  virtual void Interrupt(const absl::Status& status) = 0;

  // The next two functions are for strategies with the trait stream_exchanges, which leave a group of workers
  // in two steps: no worker may end its work before every other worker of the group has refused its updates
  // or is lost, because ending the work of one worker may end the collectives of the others with wrong sums.
  // For other strategies they do nothing.
  //
  // Halt lets the device refuse all updates that it has not begun. No step may begin afterwards. AwaitEnd
  // then returns soon for each step in flight whose `done` was recorded, in order: the outcome if the device
  // has made the step, or makes it, otherwise an error. Internal: the device does not end the update that it
  // has begun.
  virtual void Halt() {}
  // Ends all work in flight, by which the sums of refused steps become undefined. The caller has destroyed
  // all graphs that contain work of this strategy. Afterwards the parameters are those of the steps that
  // AwaitEnd has said are made. Blocks until the device has no work of this strategy, but not beyond a
  // deadline. Internal: the work did not end, or the device made a step that it should have refused. The
  // process must then end without destructors.
  virtual absl::Status EndWork() { return absl::OkStatus(); }
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_STRATEGY_H_
