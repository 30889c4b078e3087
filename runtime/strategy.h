// The seam. A training step cannot tell under which strategy it runs: it announces gradients as backward
// makes them, and when FinishStep returns, the step is made. Local, mirrored and parameter-server training,
// and every later one, fulfil this interface; workers/strategy_factory.cc is the one place that chooses.
//
//   strategy.BeginStep(step);
//   ... forward, backward; for each range, in ready order: strategy.GradientReady(i, event)
//   StepOutcome outcome = strategy.FinishStep();
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

// What one step is made of. Positions count samples over the whole job: epoch x samples per epoch + position.
struct StepInfo {
  int64_t step = 0;  // Global step of this update (asynchronously: this worker's own count, stale-
                     // synchronously: its clock).
  int64_t epoch = 0;
  int64_t sample_begin = 0;  // First sample of this worker's batch.
  int64_t sample_count = 0;  // Samples of this worker's batch; 0 is allowed (the worker still takes part).
  int64_t global_sample_count = 0;  // Over all workers, bulk-synchronous and mirrored; else sample_count.
  int64_t schedule_position = 0;    // Samples used before this update; the learning rate is a function of it.
  int turn = 0;                     // 0 or 1: differs between two steps that are under way at once.
};

// Recorded where a device begins the update of a step, by turn. Null: nobody asks.
using UpdateEvents = std::array<TimedEvent*, 2>;

// The memory a strategy works on: host pointers on a CPU, device pointers on a GPU. Not owned.
struct StepArenas {
  float* parameters = nullptr;     // arena_size elements, 64-byte aligned.
  float* gradient_sums = nullptr;  // Sums over the worker's samples, never means.
  int64_t arena_size = 0;
  UpdateEvents update_events = {};
};

class StreamedSteps;

struct StrategyTraits {
  // Where the strategy's part of a step is work on streams only, so that one graph may hold the whole step
  // and the next step be put behind it: how to do so. Lives as long as the strategy. Null: driven by the
  // host.
  StreamedSteps* streamed = nullptr;
  // Each BeginStep brings other parameters; elsewhere only the first may.
  bool parameters_change_before_step = false;
};

struct StepOutcome {
  int64_t version = 0;        // Version of the parameters now held (updates they contain, least over shards).
  int64_t staleness = 0;      // Updates applied between this step's pull and its push, worst shard.
  Nanoseconds update_ns = 0;  // Spent in the optimizer on this worker.
  int64_t bytes_out = 0;      // Sent and received for this step, frames included.
  int64_t bytes_in = 0;
};

// FinishStep in two halves. Two steps may be under way; they differ in StepInfo::turn. In each step of a
// turn, GradientReady and PutUpdate put the same work on the streams, so a graph of it serves them all; what
// differs from step to step is what BeginStep leaves in the turn's host memory.
//
//   strategy.BeginStep(step);
//   ... forward, backward with GradientReady, PutUpdate(turn): or the graph of all that
//   ... the same for the next step
//   StepOutcome outcome = streamed.AwaitStep(step, done);
class StreamedSteps {
 public:
  virtual ~StreamedSteps() = default;

  // Puts on the stream what remains of a step behind backward: only there parameters change. Never blocks.
  virtual absl::Status PutUpdate(int turn) = 0;

  // Of the oldest step that was put on the stream; `done` happens behind all of it. Blocks under a deadline
  // until it has. Errors of FinishStep; what was put there after a step that is not made is not made either.
  virtual absl::StatusOr<StepOutcome> AwaitStep(const StepInfo& step, const Event& done) = 0;
};

// Thread-compatible.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Memory of `elements` zeroed floats that this strategy exchanges best: the gradient arena should lie in
  // it. It lives as long as the strategy. Null: any memory does as well. Called at most once, before Prepare.
  virtual absl::StatusOr<float*> AllocateGradients(int64_t elements) {
    (void)elements;
    return nullptr;
  }

  // How gradients are exchanged, for logs and reports; empty where they are not.
  virtual std::string Describe() const { return ""; }

  // Called once per plan, before the first step. `ready_order` are disjoint ranges of the gradient arena in
  // the order backward will announce them; together they cover every variable. Where parameters live
  // elsewhere (servers), they are there when this returns.
  virtual absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                                 absl::Span<const Range> ready_order) = 0;

  virtual absl::Status BeginStep(const StepInfo& step) = 0;

  // Range `index` of ready_order holds its final sums once `event` has happened (always, on a CPU). May start
  // to send; never blocks.
  virtual absl::Status GradientReady(int64_t index, const Event& event) = 0;

  // Blocks under a deadline until this worker's part of the step is made; then gradient_sums may be
  // overwritten, and the parameters of the next step are in the arena, unless BeginStep brings them:
  // parameters change only within this call, and within BeginStep as the traits say. DeadlineExceeded names
  // whom it waited for; FailedPrecondition: non-finite gradients, the step is not made and the arena is of no
  // step; Aborted: the membership changed.
  virtual absl::StatusOr<StepOutcome> FinishStep() = 0;

  // Brings the parameters up to date with all updates of all workers (asynchronous servers; elsewhere they
  // are). Called at barriers only, with no step under way.
  virtual absl::Status Refresh() = 0;

  // Optimizer slots held on this worker, device memory as the arenas, in the optimizer's order; empty where
  // servers hold them.
  virtual std::vector<absl::Span<float>> slots() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_STRATEGY_H_
