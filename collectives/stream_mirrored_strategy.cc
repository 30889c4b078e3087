#include "collectives/stream_mirrored_strategy.h"

#include <sched.h>

#include <string>
#include <utility>
#include <vector>

#include "collectives/bucket_plan.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Invariants:
// 1. Buckets are put on reductions_ in the order of the plan, so that all ranks reduce the same ranges in the
// same
//    order, each behind the event after which its last range is final.
// 2. The update is on stream_ behind the last bucket, and the next step's backward behind the update: sums
// are never
//    overwritten while they are reduced or used.
class StreamMirroredStrategy final : public Strategy {
 public:
  StreamMirroredStrategy(std::unique_ptr<StreamCommunicator> communicator, ReplicaUpdate update,
                         Device& device, Stream& stream, std::unique_ptr<Stream> reductions,
                         StreamMirroredOptions options)
      : communicator_(std::move(communicator)),
        update_(std::move(update)),
        device_(device),
        stream_(stream),
        reductions_(std::move(reductions)),
        options_(options) {}

  // A reduction that waits for a rank which is gone would never end.
  ~StreamMirroredStrategy() override {
    if (in_step_) communicator_->Abort();
  }

  std::string Describe() const override { return communicator_->Describe(); }

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                         absl::Span<const Range> ready_order) override {
    TETHYS_ASSIGN_OR_RETURN(
        buckets_, PlanBuckets(ready_order, (options_.bucket_bytes + kFloatBytes - 1) / kFloatBytes));
    for (const Bucket& bucket : buckets_) {
      if (bucket.range.end() > arenas.arena_size) {
        return absl::InvalidArgumentError(absl::StrCat("gradient range ends at ", bucket.range.end(),
                                                       ", the arena at ", arenas.arena_size));
      }
    }
    reduced_.clear();
    for (size_t i = 0; i < buckets_.size(); ++i) {
      TETHYS_ASSIGN_OR_RETURN(reduced_.emplace_back(), device_.CreateEvent());
    }
    gradient_sums_ = arenas.gradient_sums;
    ready_ranges_ = static_cast<int64_t>(ready_order.size());
    TETHYS_RETURN_IF_ERROR(update_.Prepare(arenas));
    return StrategyTraits{.stream_only = true};
  }

  absl::Status BeginStep(const StepInfo& step) override {
    if (step.global_sample_count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step.step, " has no samples on any worker"));
    }
    TETHYS_RETURN_IF_ERROR(failure_);
    step_ = step;
    announced_ = 0;
    next_bucket_ = 0;
    in_step_ = true;
    return absl::OkStatus();
  }

  absl::Status GradientReady(int64_t index, const Event& event) override {
    TETHYS_CHECK(index == announced_, "range ", index, " was announced, ", announced_, " comes next");
    ++announced_;
    for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].last_ready < announced_; ++next_bucket_) {
      const Range range = buckets_[next_bucket_].range;
      TETHYS_RETURN_IF_ERROR(event.Wait(*reductions_));
      TETHYS_RETURN_IF_ERROR(Noted(
          communicator_->AllReduce(*reductions_, gradient_sums_ + range.begin, range.count), next_bucket_));
      TETHYS_RETURN_IF_ERROR(reduced_[next_bucket_]->Record(*reductions_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StepOutcome> FinishStep() override {
    TETHYS_CHECK(announced_ == ready_ranges_, announced_, " of ", ready_ranges_, " ranges were announced");
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      TETHYS_RETURN_IF_ERROR(Noted(WaitFor(bucket), bucket));
    }
    in_step_ = false;
    TETHYS_RETURN_IF_ERROR(reduced_.back()->Wait(stream_));
    StepOutcome outcome{.version = step_.step + 1, .bytes_out = BytesMoved(), .bytes_in = BytesMoved()};
    // The sums are the same bits on every worker, so all of them refuse them or none.
    TETHYS_ASSIGN_OR_RETURN(outcome.update_ns, update_.Apply(step_));
    return outcome;
  }

  absl::Status Refresh() override { return absl::OkStatus(); }

  std::vector<absl::Span<float>> slots() override { return update_.slots(); }

 private:
  absl::Status WaitFor(size_t bucket) {
    const Nanoseconds deadline = options_.clock->Now() + options_.step_timeout;
    while (true) {
      TETHYS_ASSIGN_OR_RETURN(const bool reduced, reduced_[bucket]->Happened());
      if (reduced) return communicator_->Check();
      TETHYS_RETURN_IF_ERROR(communicator_->Check());
      if (options_.clock->Now() > deadline) {
        return absl::DeadlineExceededError(absl::StrCat("the gradients were not summed within ",
                                                        ToSeconds(options_.step_timeout),
                                                        " s (timeouts.step): another rank is lost or stuck"));
      }
      sched_yield();
    }
  }

  // After an error nothing more is reduced, here or, once the others' waits end, there.
  absl::Status Noted(const absl::Status& status, size_t bucket) {
    if (status.ok()) return status;
    const Range range = buckets_[bucket].range;
    failure_ = Annotate(
        status, absl::StrCat("step ", step_.step, ", rank ", communicator_->rank(), " of ",
                             communicator_->world_size(), ", bucket ", bucket, " of ", buckets_.size(), " [",
                             range.begin, ", ", range.end(), "), ", communicator_->Describe()));
    communicator_->Abort();
    in_step_ = false;
    return failure_;
  }

  // By a bandwidth-optimal ring, which is what NCCL reports bus bandwidth by: 2 (n - 1) / n of the vector.
  int64_t BytesMoved() const {
    int64_t bytes = 0;
    for (const Bucket& bucket : buckets_) bytes += bucket.range.count * kFloatBytes;
    const int64_t world = communicator_->world_size();
    return bytes * 2 * (world - 1) / world;
  }

  const std::unique_ptr<StreamCommunicator> communicator_;
  ReplicaUpdate update_;
  Device& device_;
  Stream& stream_;
  const std::unique_ptr<Stream> reductions_;
  const StreamMirroredOptions options_;

  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<Event>> reduced_;  // By bucket.
  float* gradient_sums_ = nullptr;
  int64_t ready_ranges_ = 0;

  StepInfo step_;
  int64_t announced_ = 0;
  size_t next_bucket_ = 0;  // The first that is not on the stream yet.
  bool in_step_ = false;    // Reductions may be on the stream that have not happened.
  absl::Status failure_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateStreamMirroredStrategy(
    std::unique_ptr<StreamCommunicator> communicator, ReplicaUpdate update, Device& device, Stream& stream,
    StreamMirroredOptions options) {
  if (options.bucket_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("mirrored.bucket_bytes is ", options.bucket_bytes, "; it must be at least 1"));
  }
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Stream> reductions, device.CreateStream());
  return std::make_unique<StreamMirroredStrategy>(std::move(communicator), std::move(update), device, stream,
                                                  std::move(reductions), options);
}

}  // namespace tethys
