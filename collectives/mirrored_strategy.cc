#include "collectives/mirrored_strategy.h"

#include <utility>

#include "collectives/bucket_plan.h"
#include "collectives/vector_sum.h"
#include "runtime/base/mutex.h"
#include "runtime/base/thread.h"

namespace tethys {
namespace {

// Sums batch statistics over the workers for layers, on the training thread.
class LayerSums final : public StreamReducer {
 public:
  explicit LayerSums(std::unique_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}

  absl::Status AllReduce(Stream&, float* data, int64_t count) override {
    failure_ = Annotate(communicator_->AllReduce({data, static_cast<size_t>(count)}),
                        "sum of batch statistics over the workers");
    return failure_;
  }
  // The outcome of the last sum.
  const absl::Status& failure() const { return failure_; }
  // Bytes moved since the communicator was made.
  TrafficCount traffic() const { return communicator_->traffic(); }
  void Interrupt(const absl::Status& status) { communicator_->Interrupt(status); }

 private:
  const std::unique_ptr<Communicator> communicator_;
  absl::Status failure_;  // Used by the training thread.
};

// Invariants:
// 1. The communicator is used by one thread at a time, which has set reducing_. While backward runs, this is
// the communication thread. In EnqueueEnd the training thread reduces buckets, too. Otherwise it would be
// idle, and would have to hand the buckets over to the communication thread.
// 2. Every worker reduces bucket i after bucket i-1, so that all workers reduce the same ranges in the same
// order.
// 3. Between BeginStep and the end of EnqueueEnd a bucket belongs to the training thread until all its ranges
// are announced, and from then on to the thread that has set reducing_.
class MirroredStrategy final : public Strategy {
 public:
  MirroredStrategy(std::unique_ptr<Communicator> communicator, absl::optional<ReplicaUpdate> update,
                   MirroredOptions options, std::unique_ptr<Communicator> layers)
      : communicator_(std::move(communicator)),
        layer_sums_(layers == nullptr ? nullptr : std::make_unique<LayerSums>(std::move(layers))),
        options_(std::move(options)),
        update_(std::move(update)) {}

  absl::Status Start() {
    return thread_.Start([this] { ReduceBuckets(); });
  }

  ~MirroredStrategy() override {
    communicator_->Abort(absl::CancelledError("the strategy was closed"));
    {
      MutexLock lock(mu_);
      stopping_ = true;
    }
    work_.NotifyAll();
    thread_.Join();
  }

  // Uses the communicator on the training thread. This is safe because nothing is reduced before Prepare.
  absl::StatusOr<float*> AllocateGradients(int64_t elements) override {
    if (!options_.in_memory_of_communicator) return nullptr;
    return communicator_->AllocateForReduction(elements);
  }

  std::string Describe() const override { return options_.exchange; }
  StreamReducer* worker_sums() override { return layer_sums_.get(); }

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                         absl::Span<const Range> ready_order) override {
    TETHYS_RETURN_IF_ERROR(Failure());
    const auto bucket_elements = (options_.bucket_bytes + 3) / static_cast<int64_t>(sizeof(float));
    TETHYS_ASSIGN_OR_RETURN(std::vector<Bucket> buckets,
                            PlanBuckets(ready_order, bucket_elements, bucket_elements));
    for (const Bucket& bucket : buckets) {
      if (bucket.range.end() > arenas.arena_size) {
        return absl::InvalidArgumentError(absl::StrCat("a range of gradients ends at element ",
                                                       bucket.range.end(), ", but the arena has ",
                                                       arenas.arena_size, " elements"));
      }
    }
    if (update_.has_value()) TETHYS_RETURN_IF_ERROR(update_->Prepare(arenas));
    ready_ranges_ = static_cast<int64_t>(ready_order.size());
    MutexLock lock(mu_);
    // The traffic so far was caused by forming the group, so no step counts it.
    traffic_ = reported_ = communicator_->traffic();
    reported_of_layers_ = TrafficOfLayers();
    buckets_ = std::move(buckets);
    gradient_sums_ = arenas.gradient_sums;
    next_bucket_ = static_cast<int64_t>(buckets_.size());
    return StrategyTraits{.updates_here = update_.has_value(),
                          .refused = update_.has_value() ? update_->refused() : nullptr};
  }

  absl::Status BeginStep(const StepInfo& step) override {
    if (step.global_sample_count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step.step, " has no samples on any worker"));
    }
    step_ = step;
    if (update_.has_value()) update_->SetRates(step);
    announced_ = 0;
    MutexLock lock(mu_);
    if (!failure_.ok()) return failure_;
    measures_noise_ = communicator_->world_size() > 1 && step.step % kNoiseSteps == 0;
    own_square_ = sum_square_ = 0;
    ready_ = 0;
    next_bucket_ = 0;
    return absl::OkStatus();
  }

  absl::Status GradientReady(int64_t index, const Event&) override {
    TETHYS_CHECK(index == announced_, "range ", index, " was announced, but range ", announced_,
                 " comes next");
    ++announced_;
    bool closes_bucket = false;
    {
      MutexLock lock(mu_);
      if (!failure_.ok()) return FailureOfStep();
      ready_ = announced_;
      closes_bucket = BucketWaits();
    }
    // The last range needs no notification: the training thread calls EnqueueEnd next, which reduces the
    // remaining buckets.
    if (closes_bucket && announced_ < ready_ranges_) work_.NotifyOne();
    return absl::OkStatus();
  }

  absl::Status EnqueueEnd(int parity) override {
    TETHYS_CHECK(announced_ == ready_ranges_, announced_, " of ", ready_ranges_, " ranges were announced");
    outcome_ = {.version = step_.step + 1};
    {
      MutexLock lock(mu_);
      // This loop ends, because every collective ends within the communicator's timeout.
      while (reducing_ || BucketWaits()) {
        if (reducing_) {
          done_.Wait(mu_);
        } else {
          ReduceNextBucket();
        }
      }
      if (!failure_.ok()) return FailureOfStep();
      outcome_.bytes_out = traffic_.bytes_out - reported_.bytes_out;
      outcome_.bytes_in = traffic_.bytes_in - reported_.bytes_in;
      outcome_.own_square = own_square_;
      outcome_.sum_square = sum_square_;
      reported_ = traffic_;
    }
    const TrafficCount of_layers = TrafficOfLayers();
    outcome_.bytes_out += of_layers.bytes_out - reported_of_layers_.bytes_out;
    outcome_.bytes_in += of_layers.bytes_in - reported_of_layers_.bytes_in;
    reported_of_layers_ = of_layers;
    if (update_.has_value()) {
      TETHYS_ASSIGN_OR_RETURN(outcome_.update_ns, update_->Enqueue(parity));
    }
    return absl::OkStatus();
  }

  // The arenas are host memory, so the update has already run. The sums have the same bits on all workers, so
  // either all workers refuse the update (because a gradient is not finite) or none does.
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event&) override {
    if (update_.has_value()) TETHYS_RETURN_IF_ERROR(update_->Check(step));
    return outcome_;
  }

  absl::Status Refresh() override {
    TETHYS_RETURN_IF_ERROR(Failure());
    return layer_sums_ == nullptr ? absl::OkStatus() : layer_sums_->failure();
  }

  std::vector<absl::Span<float>> slots() override {
    return update_.has_value() ? update_->slots() : std::vector<absl::Span<float>>();
  }

  // Ends the collectives in progress, so that the threads that wait in them return and read failure_.
  void Interrupt(const absl::Status& status) override {
    {
      MutexLock lock(mu_);
      if (failure_.ok()) failure_ = status;
    }
    communicator_->Interrupt(status);
    if (layer_sums_ != nullptr) layer_sums_->Interrupt(status);
  }

 private:
  absl::Status Failure() {
    MutexLock lock(mu_);
    return failure_;
  }
  absl::Status FailureOfStep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Annotate(failure_, absl::StrCat("step ", step_.step));
  }

  TrafficCount TrafficOfLayers() const {
    return layer_sums_ == nullptr ? TrafficCount() : layer_sums_->traffic();
  }

  bool BucketWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return failure_.ok() && next_bucket_ < static_cast<int64_t>(buckets_.size()) &&
           buckets_[next_bucket_].last_ready < ready_;
  }

  // Releases the lock while the ranks exchange.
  void ReduceNextBucket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Range range = buckets_[next_bucket_].range;
    const absl::Span<float> sums(gradient_sums_ + range.begin, static_cast<size_t>(range.count));
    const bool measures_noise = measures_noise_;
    reducing_ = true;
    mu_.Unlock();
    const double own_square = measures_noise ? SumOfSquaresByParts(sums.data(), range.count) : 0;
    const absl::Status reduced = communicator_->AllReduce(sums);
    const double sum_square = measures_noise ? SumOfSquaresByParts(sums.data(), range.count) : 0;
    const TrafficCount traffic = communicator_->traffic();
    mu_.Lock();
    reducing_ = false;
    own_square_ += own_square;
    sum_square_ += sum_square;
    traffic_ = traffic;
    if (failure_.ok()) failure_ = reduced;
    if (reduced.ok()) ++next_bucket_;
  }

  // The body of the communication thread.
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
  // Used by the training thread; null if no layer sums over workers.
  const std::unique_ptr<LayerSums> layer_sums_;
  const MirroredOptions options_;

  Mutex mu_;
  CondVar work_;  // Signalled when a bucket is complete or stopping_ is set.
  CondVar done_;  // Signalled when the communication thread has reduced a bucket or failed.
  bool reducing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Bucket> buckets_ ABSL_GUARDED_BY(mu_);
  float* gradient_sums_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t ready_ ABSL_GUARDED_BY(mu_) = 0;            // Ranges announced in this step.
  int64_t next_bucket_ ABSL_GUARDED_BY(mu_) = 0;      // The first bucket that is not reduced.
  bool measures_noise_ ABSL_GUARDED_BY(mu_) = false;  // True if this step measures the gradient noise.
  double own_square_ ABSL_GUARDED_BY(mu_) = 0;
  double sum_square_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  TrafficCount traffic_ ABSL_GUARDED_BY(mu_);

  // Owned by the training thread.
  absl::optional<ReplicaUpdate> update_;
  StepInfo step_;
  StepOutcome outcome_;
  int64_t ready_ranges_ = 0;
  int64_t announced_ = 0;
  TrafficCount reported_, reported_of_layers_;

  Thread thread_;  // Declared last: it starts once all members above exist.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateMirroredStrategy(std::unique_ptr<Communicator> communicator,
                                                                 absl::optional<ReplicaUpdate> update,
                                                                 MirroredOptions options,
                                                                 std::unique_ptr<Communicator> layers) {
  if (options.bucket_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tuning.bucket_bytes is ", options.bucket_bytes, "; it must be at least 1"));
  }
  auto strategy = std::make_unique<MirroredStrategy>(std::move(communicator), std::move(update),
                                                     std::move(options), std::move(layers));
  TETHYS_RETURN_IF_ERROR(strategy->Start());
  return std::unique_ptr<Strategy>(std::move(strategy));
}

}  // namespace tethys
