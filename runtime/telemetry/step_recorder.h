// Records every training step of one rank at a cost below 1 % of a 500 us step: the training thread writes
// fixed-size records into a ring that is allocated at construction, and another thread drains the ring into
// messages for the chief.
//
//   recorder.BeginStep({.step = 7, .epoch = 0, .sample_begin = 896, .samples = 128});
//   batch = loader.Next();                   recorder.Mark(Phase::kData);
//   strategy.BeginStep(step);                recorder.Mark(Phase::kExchange);
//   plan.Forward();                          recorder.Mark(Phase::kForward);
//   plan.Backward();                         recorder.Mark(Phase::kBackward);  // meanwhile BucketReady(i)
//   strategy.EnqueueEnd(parity);             recorder.Mark(Phase::kExchange);
//   outcome = strategy.AwaitEnd(step, done);
//   recorder.EndStep({.loss_sum = 81.2, .correct = 97, ...});
//
// The training thread calls BeginStep, Mark, BucketReady, EndStep and AbandonSteps; one other thread calls
// Drain. No heap allocation and no lock on the training thread, unless the ring is full. Steps may overlap:
// the next step may begin before EndStep, which ends the oldest step.
#ifndef TETHYS_RUNTIME_TELEMETRY_STEP_RECORDER_H_
#define TETHYS_RUNTIME_TELEMETRY_STEP_RECORDER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace tethys {

enum class Phase {
  kData,     // Waiting for and building the batch.
  kForward,  // Forward and loss.
  kBackward,
  kExchange,  // From the end of backward until the update is done, plus earlier waits for other workers.
};
inline constexpr int kPhases = 4;

struct StepStart {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t sample_begin = 0;  // The step's first position in the job's sample order.
  int64_t samples = 0;
};

// Durations of a step's phases on an asynchronous device, where the host's marks only show when work was
// enqueued.
struct DeviceTimes {
  Nanoseconds forward_ns = 0;
  Nanoseconds backward_ns = 0;
  Nanoseconds exchange_ns = 0;  // Like Phase::kExchange; includes the optimizer's update.
  Nanoseconds update_ns = 0;    // The part of exchange_ns that the optimizer's update took.
};

struct StepResult {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t labels = 0;  // The number of labels that were compared with outputs.
  int64_t bytes_out = 0;
  int64_t bytes_in = 0;
  int64_t staleness = 0;
  Nanoseconds update_ns = 0;  // The optimizer's update, a part of kExchange; recorded as a separate phase.
  // The squared norms of the gradient sums of this rank and of all workers, as in StepRecord
  // (telemetry.proto).
  double own_square = 0;
  double sum_square = 0;
  std::optional<DeviceTimes> on_device = {};  // If present, replaces update_ns and all marks after kData.
};

// The records of a full ring that no thread drains.
enum class UndrainedRecords {
  // No record is ever lost. Records are evidence of which samples were used,
  // so a full ring makes the training thread wait for Drain, and a wait beyond
  // `patience` is an error.
  kWait,
  // A full ring drops its oldest record, for programs that have no other thread. Only the training thread may
  // call Drain.
  kDropOldest
};

class StepRecorder {
 public:
  static constexpr int64_t kCapacity = 8192;  // Number of records, enough for 4 s of 500 us steps.
  static constexpr Nanoseconds kPatience = 10 * kSecond;

  // Records at most `buckets` ready times per step. The training thread calls `half_full` whenever half of
  // the ring waits for Drain, and when the ring is full; `half_full` should request a Drain and must not
  // block.
  StepRecorder(const Clock& clock, int rank, int buckets, int64_t capacity = kCapacity,
               Nanoseconds patience = kPatience, std::function<void()> half_full = nullptr,
               UndrainedRecords undrained = UndrainedRecords::kWait);

  // DeadlineExceeded: the ring stayed full for `patience`; the step is not begun.
  absl::Status BeginStep(const StepStart& start);
  // Adds the time since BeginStep or the last Mark to `phase`.
  void Mark(Phase phase);
  // Marks the step as waiting for its exchange, no longer computing.
  void BeginExchange() { computing_.store(false, std::memory_order_relaxed); }
  // Marks the step as computing again, after an exchange before its forward pass.
  void EndExchange() { computing_.store(true, std::memory_order_relaxed); }
  // Counts the time since `begin`, when the current phase began to wait for other workers, as
  // Phase::kExchange instead of the current phase.
  void CountAsExchange(Nanoseconds begin);
  // Records that gradient bucket `index` now holds its final sums. The collective of the bucket has not
  // begun.
  void BucketReady(int index);
  // Ends the oldest step that was begun and not ended. If the step began before the previous step ended, its
  // recorded time begins at the end of the previous step, so that the recorded times add up to the time that
  // passed.
  void EndStep(const StepResult& result);

  // Drops the steps that were begun and not ended. Such steps may be begun again later.
  void AbandonSteps();

  // Appends at most `limit` finished steps to `out` and returns how many.
  int64_t Drain(proto::StepRecords& out, int64_t limit = 1024);

  // True while a step computes and does not wait in an exchange. Any thread may call it.
  bool computing() const { return computing_.load(std::memory_order_relaxed); }

  // The time for which the training thread has waited for a free slot in the ring; normally 0. Any thread may
  // call it.
  Nanoseconds stalled_ns() const { return stalled_ns_.load(std::memory_order_relaxed); }

 private:
  struct Record {
    StepStart start;
    StepResult result;
    Nanoseconds begin_ns;
    Nanoseconds end_ns;
    std::array<Nanoseconds, kPhases> phase_ns;
    int buckets_ready;  // 1 + the highest index given to BucketReady.
  };

  absl::Status MakeRoom();
  bool Full() const;
  Nanoseconds* BucketTimes(int64_t number) {
    return bucket_ready_ns_.data() + (number % capacity_) * buckets_;
  }
  void AppendTo(proto::StepRecord& out, int64_t number);

  const Clock& clock_;
  const int rank_;
  const int buckets_;
  const int64_t capacity_;
  const Nanoseconds patience_;
  const std::function<void()> half_full_;
  const UndrainedRecords undrained_;

  // Record i lies in slot i % capacity. Records [drained_, finished_) wait for Drain.
  std::vector<Record> ring_;
  std::vector<Nanoseconds> bucket_ready_ns_;  // [capacity][buckets]: ready times of each slot.
  std::atomic<int64_t> finished_{0};
  std::atomic<int64_t> drained_{0};
  std::atomic<Nanoseconds> stalled_ns_{0};
  std::atomic<bool> computing_{false};
  Mutex mu_;  // Held to wait for a free slot in the ring, and to free slots.
  CondVar room_;

  // Used by the training thread.
  int64_t begun_ = 0;
  Record* current_ = nullptr;  // The record of the step that was begun last.
  Nanoseconds* current_buckets_ = nullptr;
  Nanoseconds last_mark_ = 0;
  Nanoseconds last_end_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_STEP_RECORDER_H_
