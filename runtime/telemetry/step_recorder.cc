#include "runtime/telemetry/step_recorder.h"

#include <algorithm>
#include <utility>

namespace tethys {

StepRecorder::StepRecorder(const Clock& clock, int rank, int buckets, int64_t capacity, Nanoseconds patience,
                           std::function<void()> half_full, UndrainedRecords undrained)
    : clock_(clock),
      rank_(rank),
      buckets_(buckets),
      capacity_(capacity),
      patience_(patience),
      half_full_(std::move(half_full)),
      undrained_(undrained),
      ring_(capacity),
      bucket_ready_ns_(capacity * buckets) {
  TETHYS_CHECK(buckets >= 0 && capacity > 0, "buckets ", buckets, ", capacity ", capacity);
}

bool StepRecorder::Full() const { return begun_ - drained_.load(std::memory_order_acquire) >= capacity_; }

absl::Status StepRecorder::MakeRoom() {
  if (undrained_ == UndrainedRecords::kDropOldest) {
    TETHYS_CHECK(drained_ < finished_, "more steps are in flight than the ring has records");
    ++drained_;
    return absl::OkStatus();
  }
  const Nanoseconds begin = clock_.Now();
  if (half_full_) half_full_();
  MutexLock lock(mu_);
  while (Full()) {
    if (!room_.WaitFor(mu_, patience_) && Full()) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", rank_, ": ", capacity_,
                       " step records wait to be sent to the chief and none was sent for ",
                       ToSeconds(patience_), " s; is the connection to the chief stuck?"));
    }
  }
  stalled_ns_.fetch_add(clock_.Now() - begin, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status StepRecorder::BeginStep(const StepStart& start) {
  if (Full()) TETHYS_RETURN_IF_ERROR(MakeRoom());
  const int64_t number = begun_++;
  current_ = &ring_[number % capacity_];
  current_buckets_ = BucketTimes(number);
  std::fill_n(current_buckets_, buckets_, 0);
  last_mark_ = clock_.Now();
  computing_.store(true, std::memory_order_relaxed);
  *current_ = {
      .start = start, .result = {}, .begin_ns = last_mark_, .end_ns = 0, .phase_ns = {}, .buckets_ready = 0};
  return absl::OkStatus();
}

void StepRecorder::Mark(Phase phase) {
  const Nanoseconds now = clock_.Now();
  current_->phase_ns[static_cast<int>(phase)] += now - last_mark_;
  last_mark_ = now;
}

void StepRecorder::CountAsExchange(Nanoseconds begin) {
  const Nanoseconds waited = clock_.Now() - begin;
  current_->phase_ns[static_cast<int>(Phase::kExchange)] += waited;
  last_mark_ += waited;
}

void StepRecorder::BucketReady(int index) {
  TETHYS_CHECK(index >= 0 && index < buckets_, "bucket ", index, " of ", buckets_);
  current_buckets_[index] = clock_.Now() - current_->begin_ns;
  current_->buckets_ready = std::max(current_->buckets_ready, index + 1);
}

void StepRecorder::EndStep(const StepResult& result) {
  const int64_t number = finished_.load(std::memory_order_relaxed);
  TETHYS_CHECK(number < begun_, "step ended without a beginning");
  Record& record = ring_[number % capacity_];
  record.result = result;
  record.begin_ns = std::max(record.begin_ns, last_end_);
  record.end_ns = last_end_ = clock_.Now();
  finished_.fetch_add(1, std::memory_order_release);
  // half_full_ is called exactly once each time the ring becomes half full, because `waiting` grows only
  // here, by one.
  const int64_t waiting = number + 1 - drained_.load(std::memory_order_relaxed);
  if (half_full_ && waiting == (capacity_ + 1) / 2) half_full_();
}

void StepRecorder::AbandonSteps() {
  begun_ = finished_.load(std::memory_order_relaxed);
  current_ = nullptr;
  computing_.store(false, std::memory_order_relaxed);
}

int64_t StepRecorder::Drain(proto::StepRecords& out, int64_t limit) {
  const int64_t begin = drained_.load(std::memory_order_relaxed);
  const int64_t end = std::min(finished_.load(std::memory_order_acquire), begin + limit);
  for (int64_t number = begin; number < end; ++number) AppendTo(*out.add_record(), number);
  if (end == begin) return 0;
  MutexLock lock(mu_);
  drained_.store(end, std::memory_order_release);
  room_.NotifyOne();
  return end - begin;
}

void StepRecorder::AppendTo(proto::StepRecord& out, int64_t number) {
  const Record& record = ring_[number % capacity_];
  const auto phase = [&record](Phase p) { return record.phase_ns[static_cast<int>(p)]; };
  const DeviceTimes times = record.result.on_device.value_or(DeviceTimes{
      phase(Phase::kForward), phase(Phase::kBackward), phase(Phase::kExchange), record.result.update_ns});
  out.set_rank(rank_);
  out.set_step(record.start.step);
  out.set_epoch(record.start.epoch);
  out.set_sample_begin(record.start.sample_begin);
  out.set_samples(record.start.samples);
  out.set_begin_ns(record.begin_ns);
  out.set_data_ns(phase(Phase::kData));
  out.set_forward_ns(times.forward_ns);
  out.set_backward_ns(times.backward_ns);
  out.set_exchange_ns(std::max<Nanoseconds>(0, times.exchange_ns - times.update_ns));
  out.set_update_ns(times.update_ns);
  out.set_own_square(record.result.own_square);
  out.set_sum_square(record.result.sum_square);
  out.set_total_ns(record.end_ns - record.begin_ns);
  out.set_bytes_out(record.result.bytes_out);
  out.set_bytes_in(record.result.bytes_in);
  out.set_staleness(record.result.staleness);
  out.set_loss_sum(record.result.loss_sum);
  out.set_correct(record.result.correct);
  out.set_labels(record.result.labels);
  const Nanoseconds* buckets = BucketTimes(number);
  out.mutable_bucket_ready_ns()->Add(buckets, buckets + record.buckets_ready);
}

}  // namespace tethys
