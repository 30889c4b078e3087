#include "collectives/mirrored_strategy.h"

#include <thread>
#include <utility>

#include "absl/types/optional.h"
#include "collectives/bucket_plan.h"
#include "runtime/base/mutex.h"
#include "runtime/replica_update.h"

namespace tethys {
namespace {

// Invariants:
// 1. The communicator is used by one thread at a time, which has set reducing_: the communication thread
// while backward goes on; in FinishStep, having nothing else to do, also the training thread, which saves
// handing over.
// 2. Bucket i is reduced after bucket i-1, on every worker, so that all reduce the same ranges in the same
// order.
// 3. Between BeginStep and the end of FinishStep a bucket belongs to the training thread until all its ranges
// are announced, and to the communication thread from then on.
class MirroredStrategy final : public Strategy {
 public:
  MirroredStrategy(std::unique_ptr<Communicator> communicator, std::unique_ptr<Optimizer> optimizer,
                   MirroredOptions options, Stream& stream, const Clock& clock)
      : communicator_(std::move(communicator)),
        options_(std::move(options)),
        update_(MakeUpdate(std::move(optimizer), stream, clock)),
        thread_([this] { ReduceBuckets(); }) {}

  ~MirroredStrategy() override {
    communicator_->Abort(absl::CancelledError("the strategy was closed"));
    {
      MutexLock lock(mu_);
      stopping_ = true;
    }
    work_.NotifyAll();
    thread_.join();
  }

  // Nothing is reduced before the first Prepare, so the communicator is free.
  absl::StatusOr<float*> AllocateGradients(int64_t elements) override {
    if (!options_.in_memory_of_communicator) return nullptr;
    return communicator_->AllocateForReduction(elements);
  }

  std::string Describe() const override { return options_.exchange; }

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                         absl::Span<const Range> ready_order) override {
    const auto bucket_elements = (options_.bucket_bytes + 3) / static_cast<int64_t>(sizeof(float));
    TETHYS_ASSIGN_OR_RETURN(std::vector<Bucket> buckets,
                            PlanBuckets(ready_order, bucket_elements, bucket_elements));
    for (const Bucket& bucket : buckets) {
      if (bucket.range.end() > arenas.arena_size) {
        return absl::InvalidArgumentError(absl::StrCat("gradient range ends at ", bucket.range.end(),
                                                       ", the arena at ", arenas.arena_size));
      }
    }
    if (update_.has_value()) TETHYS_RETURN_IF_ERROR(update_->Prepare(arenas));
    ready_ranges_ = static_cast<int64_t>(ready_order.size());
    MutexLock lock(mu_);
    // What was sent to form the group is no part of a step.
    traffic_ = reported_ = communicator_->traffic();
    buckets_ = std::move(buckets);
    gradient_sums_ = arenas.gradient_sums;
    next_bucket_ = static_cast<int64_t>(buckets_.size());
    return StrategyTraits();
  }

  absl::Status BeginStep(const StepInfo& step) override {
    if (step.global_sample_count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step.step, " has no samples on any worker"));
    }
    step_ = step;
    announced_ = 0;
    MutexLock lock(mu_);
    if (!failure_.ok()) return failure_;
    ready_ = 0;
    next_bucket_ = 0;
    return absl::OkStatus();
  }

  absl::Status GradientReady(int64_t index, const Event&) override {
    TETHYS_CHECK(index == announced_, "range ", index, " was announced, ", announced_, " comes next");
    ++announced_;
    bool closes_bucket = false;
    {
      MutexLock lock(mu_);
      ready_ = announced_;
      closes_bucket = BucketWaits();
    }
    // After the last range FinishStep is next, and does what is left.
    if (closes_bucket && announced_ < ready_ranges_) work_.NotifyOne();
    return absl::OkStatus();
  }

  absl::StatusOr<StepOutcome> FinishStep() override {
    TETHYS_CHECK(announced_ == ready_ranges_, announced_, " of ", ready_ranges_, " ranges were announced");
    StepOutcome outcome{.version = step_.step + 1};
    {
      MutexLock lock(mu_);
      // Every wait within a collective has the communicator's deadline, so this one ends too.
      while (reducing_ || BucketWaits()) {
        if (reducing_) {
          done_.Wait(mu_);
        } else {
          ReduceNextBucket();
        }
      }
      if (!failure_.ok()) return Annotate(failure_, absl::StrCat("step ", step_.step));
      outcome.bytes_out = traffic_.bytes_out - reported_.bytes_out;
      outcome.bytes_in = traffic_.bytes_in - reported_.bytes_in;
      reported_ = traffic_;
    }
    // The sums are the same bits on every worker, so all of them refuse them or none.
    if (update_.has_value()) {
      TETHYS_ASSIGN_OR_RETURN(outcome.update_ns, update_->Apply(step_));
    }
    return outcome;
  }

  absl::Status Refresh() override { return absl::OkStatus(); }

  std::vector<absl::Span<float>> slots() override {
    return update_.has_value() ? update_->slots() : std::vector<absl::Span<float>>();
  }

 private:
  absl::optional<ReplicaUpdate> MakeUpdate(std::unique_ptr<Optimizer> optimizer, Stream& stream,
                                           const Clock& clock) const {
    if (optimizer == nullptr) return absl::nullopt;
    return ReplicaUpdate(std::move(optimizer), options_.optimizer, options_.total_samples,
                         communicator_->world_size(), stream, clock);
  }

  bool BucketWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return failure_.ok() && next_bucket_ < static_cast<int64_t>(buckets_.size()) &&
           buckets_[next_bucket_].last_ready < ready_;
  }

  // Without the lock while the ranks exchange.
  void ReduceNextBucket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Range range = buckets_[next_bucket_].range;
    const absl::Span<float> sums(gradient_sums_ + range.begin, static_cast<size_t>(range.count));
    reducing_ = true;
    mu_.Unlock();
    const absl::Status reduced = communicator_->AllReduce(sums);
    const TrafficCount traffic = communicator_->traffic();
    mu_.Lock();
    reducing_ = false;
    traffic_ = traffic;
    failure_ = reduced;
    if (reduced.ok()) ++next_bucket_;
  }

  // The communication thread.
  void ReduceBuckets() {
    MutexLock lock(mu_);
    while (!stopping_) {
      if (reducing_ || !BucketWaits()) {
        work_.Wait(mu_);
        continue;
      }
      ReduceNextBucket();
      done_.NotifyOne();
    }
  }

  const std::unique_ptr<Communicator> communicator_;
  const MirroredOptions options_;

  Mutex mu_;
  CondVar work_;  // A bucket is complete, or stopping_.
  CondVar done_;  // The communication thread has reduced a bucket, or failed to.
  bool reducing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Bucket> buckets_ ABSL_GUARDED_BY(mu_);
  float* gradient_sums_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t ready_ ABSL_GUARDED_BY(mu_) = 0;        // Ranges announced in this step.
  int64_t next_bucket_ ABSL_GUARDED_BY(mu_) = 0;  // The first that is not reduced yet.
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  TrafficCount traffic_ ABSL_GUARDED_BY(mu_);

  // Owned by the training thread.
  absl::optional<ReplicaUpdate> update_;
  StepInfo step_;
  int64_t ready_ranges_ = 0;
  int64_t announced_ = 0;
  TrafficCount reported_;

  std::thread thread_;  // Last: it starts once all of the above is there.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateMirroredStrategy(std::unique_ptr<Communicator> communicator,
                                                                 std::unique_ptr<Optimizer> optimizer,
                                                                 MirroredOptions options, Stream& stream,
                                                                 const Clock& clock) {
  if (options.bucket_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("mirrored.bucket_bytes is ", options.bucket_bytes, "; it must be at least 1"));
  }
  return std::make_unique<MirroredStrategy>(std::move(communicator), std::move(optimizer), std::move(options),
                                            stream, clock);
}

}  // namespace tethys
