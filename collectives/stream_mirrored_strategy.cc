#include "collectives/stream_mirrored_strategy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bucket_plan.h"
#include "runtime/base/interruption.h"
#include "runtime/base/poll_until.h"
#include "runtime/device/bfloat16.h"

namespace tethys {
namespace {

// Invariants:
// 1. Buckets are enqueued on reductions_ in the order of the plan, so all ranks reduce the same ranges in the
//    same order. Each bucket waits for the event that marks its last range as final.
// 2. On stream_ the update follows the last bucket, and the next step's backward follows the update. So sums
//    are never overwritten while they are reduced or used.
// 3. After the reduction of each bucket, the bucket's number is copied to host memory, to the element of
//    progress_ for the step's parity (even or odd). So an error can name the bucket that was awaited, even if
//    one graph launch reduces all buckets.
// 4. Sums for layers are enqueued on reductions_, too, between the buckets, because two communicators that
//    use the GPUs at the same time may wait for each other forever. All ranks enqueue buckets and sums for
//    layers in the same order.
// 5. After Halt, the device makes no update whose sums EndWork may spoil: once the sums are complete, and
//    before it changes anything, the device reads whether updates are refused (Optimizer::Refuse). If not all
//    buckets of a step are reduced when the host looks at progress_ after Halt, the step is therefore not
//    made. Otherwise the device completes the update without other ranks.
// 6. With in_bfloat16, each bucket is rounded to bfloat16, reduced, and converted back to float32, all on
//    reductions_. The bfloat16 values lie in rounded_; the sums in the arena are always float32.
class StreamMirroredStrategy final : public Strategy, private StreamReducer {
 public:
  StreamMirroredStrategy(std::unique_ptr<StreamCommunicator> communicator, ReplicaUpdate update,
                         Device& device, Stream& stream, StreamMirroredOptions options)
      : communicator_(std::move(communicator)),
        update_(std::move(update)),
        device_(device),
        stream_(stream),
        options_(options) {}

  absl::Status Initialize() {
    TETHYS_ASSIGN_OR_RETURN(reductions_, device_.CreateStream());
    TETHYS_ASSIGN_OR_RETURN(reduced_, device_.CreateEvent());
    TETHYS_ASSIGN_OR_RETURN(layer_computed_, device_.CreateEvent());
    TETHYS_ASSIGN_OR_RETURN(layer_summed_, device_.CreateEvent());
    TETHYS_ASSIGN_OR_RETURN(progress_, device_.Allocate(2 * sizeof(int32_t), MemoryKind::kPinnedHost));
    return absl::OkStatus();
  }

  // Aborts the reductions of a failed step, which would wait for a lost rank forever. The owner has destroyed
  // the step's graphs before (workers/step_pipeline.h), as Abort requires.
  ~StreamMirroredStrategy() override {
    if (steps_in_flight_ > 0) communicator_->Abort().IgnoreError();
  }

  std::string Describe() const override {
    return absl::StrCat(communicator_->Describe(), options_.in_bfloat16 ? ", in bfloat16" : "",
                        options_.reason.empty() ? "" : ": ", options_.reason);
  }

  StreamReducer* worker_sums() override { return options_.sums_for_layers ? this : nullptr; }

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                         absl::Span<const Range> ready_order) override {
    TETHYS_ASSIGN_OR_RETURN(
        buckets_, PlanBuckets(ready_order, Elements(options_.bucket_bytes),
                              Elements(std::min(options_.bucket_bytes, options_.first_bucket_bytes))));
    for (const Bucket& bucket : buckets_) {
      if (bucket.range.end() > arenas.arena_size) {
        return absl::InvalidArgumentError(absl::StrCat("a range of gradients ends at element ",
                                                       bucket.range.end(), ", but the arena has ",
                                                       arenas.arena_size, " elements"));
      }
    }
    TETHYS_RETURN_IF_ERROR(UploadNumbers());
    if (options_.in_bfloat16) {
      TETHYS_ASSIGN_OR_RETURN(rounded_,
                              device_.Allocate(arenas.arena_size * element_bytes_, MemoryKind::kDevice));
    }
    gradient_sums_ = arenas.gradient_sums;
    ready_ranges_ = static_cast<int64_t>(ready_order.size());
    TETHYS_RETURN_IF_ERROR(update_.Prepare(arenas));
    return StrategyTraits{
        .stream_only = true, .stream_exchanges = true, .updates_here = true, .refused = update_.refused()};
  }

  absl::Status BeginStep(const StepInfo& step) override {
    if (step.global_sample_count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step.step, " has no samples on any worker"));
    }
    TETHYS_RETURN_IF_ERROR(failure_);
    TETHYS_RETURN_IF_ERROR(interruption_.Check());
    if (halted_) return HaltedError();
    step_ = step;
    update_.SetRates(step);
    Progress(step.parity) = 0;
    announced_ = 0;
    next_bucket_ = 0;
    ++steps_in_flight_;
    return absl::OkStatus();
  }

  // Like EnqueueEnd, it does not look at the interruption, so that a step is enqueued as a whole. Otherwise
  // other ranks could make a step to which this rank has given its gradients, without an update of this rank.
  absl::Status GradientReady(int64_t index, const Event& event) override {
    TETHYS_CHECK(index == announced_, "range ", index, " was announced, but range ", announced_,
                 " comes next");
    ++announced_;
    for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].last_ready < announced_; ++next_bucket_) {
      const absl::Status enqueued = EnqueueReduction(next_bucket_, event);
      if (!enqueued.ok()) return Failed(enqueued, step_, next_bucket_);
    }
    return absl::OkStatus();
  }

  absl::Status EnqueueEnd(int parity) override {
    TETHYS_CHECK(announced_ == ready_ranges_, announced_, " of ", ready_ranges_, " ranges were announced");
    TETHYS_RETURN_IF_ERROR(reduced_->Record(*reductions_));
    TETHYS_RETURN_IF_ERROR(reduced_->Wait(stream_));
    return update_.Enqueue(parity).status();
  }

  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) override {
    if (halted_) {
      TETHYS_RETURN_IF_ERROR(AwaitHalted(step, done));
    } else {
      const absl::Status happened = Await(done);
      if (!happened.ok()) return Failed(happened, step, Reduced(step.parity));
      // The sums have the same bits on all workers, so either all workers refuse the update (because a
      // gradient is not finite) or none does.
      TETHYS_RETURN_IF_ERROR(update_.Check(step));
    }
    --steps_in_flight_;
    return StepOutcome{.version = step.step + 1, .bytes_out = BytesMoved(), .bytes_in = BytesMoved()};
  }

  absl::Status Refresh() override {
    TETHYS_RETURN_IF_ERROR(failure_);
    return interruption_.Check();
  }

  std::vector<absl::Span<float>> slots() override { return update_.slots(); }

  // Ends the wait for a step and lets no step begin. EndWork or the destructor aborts the reductions in
  // flight, because Abort requires that the step's graphs are destroyed.
  void Interrupt(const absl::Status& status) override { interruption_.Raise(status); }

  void Halt() override {
    halted_ = true;
    update_.Refuse();
  }

  absl::Status EndWork() override {
    Halt();
    TETHYS_RETURN_IF_ERROR(communicator_->Abort());
    TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Event> end, device_.CreateEvent());
    for (Stream* const stream : {reductions_.get(), &stream_}) {
      TETHYS_RETURN_IF_ERROR(end->Record(*stream));
      TETHYS_ASSIGN_OR_RETURN(const bool ended, PollUntil([&] { return end->Happened(); },
                                                          options_.step_timeout, *options_.clock));
      if (!ended) {
        return absl::InternalError(absl::StrCat(device_.Describe(), " did not end its work within ",
                                                ToSeconds(options_.step_timeout),
                                                " s (timeouts.step) after the group was aborted"));
      }
    }
    steps_in_flight_ = 0;
    for (const int parity : {0, 1}) {
      if (!refused_[parity] || update_.outcome(parity) != Optimizer::Outcome::kMade) continue;
      return absl::InternalError(absl::StrCat("the device made a step that this worker had refused, on ",
                                              communicator_->Describe()));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
    TETHYS_RETURN_IF_ERROR(layer_computed_->Record(stream));
    TETHYS_RETURN_IF_ERROR(layer_computed_->Wait(*reductions_));
    TETHYS_RETURN_IF_ERROR(communicator_->AllReduce(*reductions_, data, count));
    TETHYS_RETURN_IF_ERROR(layer_summed_->Record(*reductions_));
    return layer_summed_->Wait(stream);
  }

  // Copies the buckets' numbers (1, 2, ...) to the device; EnqueueReduction copies them from there to
  // progress_.
  absl::Status UploadNumbers() {
    std::vector<int32_t> numbers(buckets_.size());
    std::iota(numbers.begin(), numbers.end(), 1);
    const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(int32_t));
    TETHYS_ASSIGN_OR_RETURN(numbers_, device_.Allocate(bytes, MemoryKind::kDevice));
    return device_.CopyToDevice(stream_, numbers_->data(), numbers.data(), bytes);
  }

  absl::Status EnqueueReduction(size_t bucket, const Event& ready) {
    const Range range = buckets_[bucket].range;
    TETHYS_RETURN_IF_ERROR(ready.Wait(*reductions_));
    TETHYS_RETURN_IF_ERROR(options_.in_bfloat16 ? EnqueueSumInBfloat16(range) : EnqueueSum(range));
    return device_.CopyToHost(*reductions_, &Progress(step_.parity),
                              static_cast<const int32_t*>(numbers_->data()) + bucket, sizeof(int32_t));
  }

  absl::Status EnqueueSum(const Range& range) {
    return communicator_->AllReduce(*reductions_, gradient_sums_ + range.begin, range.count);
  }

  absl::Status EnqueueSumInBfloat16(const Range& range) {
    float* const sums = gradient_sums_ + range.begin;
    Bfloat16* const rounded = static_cast<Bfloat16*>(rounded_->data()) + range.begin;
    TETHYS_RETURN_IF_ERROR(device_.RoundToBfloat16(*reductions_, sums, rounded, range.count));
    TETHYS_RETURN_IF_ERROR(communicator_->AllReduce(*reductions_, rounded, range.count));
    return device_.WidenBfloat16(*reductions_, rounded, sums, range.count);
  }

  absl::Status Await(const Event& done) {
    const auto happened_or_failed = [&]() -> absl::StatusOr<bool> {
      TETHYS_ASSIGN_OR_RETURN(const bool happened, done.Happened());
      TETHYS_RETURN_IF_ERROR(communicator_->Check());
      if (!happened) TETHYS_RETURN_IF_ERROR(interruption_.Check());
      return happened;
    };
    TETHYS_ASSIGN_OR_RETURN(const bool in_time,
                            PollUntil(happened_or_failed, options_.step_timeout, *options_.clock));
    if (in_time) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat("the gradients were not summed within ",
                                                    ToSeconds(options_.step_timeout),
                                                    " s (timeouts.step): another rank is lost or stuck"));
  }

  absl::Status HaltedError() const {
    return absl::AbortedError("the updates of this group of workers are refused");
  }

  // Waits until it is certain whether the device makes a step, after Halt. Returns OK once it has made the
  // step.
  absl::Status AwaitHalted(const StepInfo& step, const Event& done) {
    const auto outcome = [&] { return update_.outcome(step.parity); };
    bool made = false;
    const auto is_certain = [&]() -> absl::StatusOr<bool> {
      TETHYS_ASSIGN_OR_RETURN(const bool happened, done.Happened());
      made = happened && outcome() == Optimizer::Outcome::kMade;
      return happened || outcome() == Optimizer::Outcome::kRefused || Reduced(step.parity) < buckets_.size();
    };
    TETHYS_ASSIGN_OR_RETURN(const bool certain,
                            PollUntil(is_certain, options_.step_timeout, *options_.clock));
    if (!certain) {
      return absl::InternalError(absl::StrCat("step ", step.step, ": ", device_.Describe(),
                                              " did not end an update that it had begun within ",
                                              ToSeconds(options_.step_timeout), " s (timeouts.step)"));
    }
    if (made) return absl::OkStatus();
    refused_[step.parity] = true;
    return HaltedError();
  }

  // Sets failure_, so that no other step begins. The destructor aborts the communicator, not this function,
  // because the caller's graphs still exist and NCCL's abort would wait for them forever.
  absl::Status Failed(const absl::Status& status, const StepInfo& step, size_t bucket) {
    // If all buckets are reduced, the update has failed, and the error names the last bucket.
    const size_t last = std::min(bucket, buckets_.size() - 1);
    const Range range = buckets_[last].range;
    failure_ = Annotate(
        status, absl::StrCat("step ", step.step, ", rank ", communicator_->rank(), " of ",
                             communicator_->world_size(), ", bucket ", last, " of ", buckets_.size(), " [",
                             range.begin, ", ", range.end(), "), ", communicator_->Describe()));
    return failure_;
  }

  // The number of buckets that the last step of a parity (even or odd) has reduced. The device writes it.
  int32_t& Progress(int parity) { return static_cast<int32_t*>(progress_->data())[parity]; }
  size_t Reduced(int parity) { return static_cast<size_t>(std::atomic_ref(Progress(parity)).load()); }

  int64_t Elements(int64_t bytes) const { return (bytes + element_bytes_ - 1) / element_bytes_; }

  // The bytes that a bandwidth-optimal ring moves, 2 (n - 1) / n of the vector. NCCL computes its bus
  // bandwidth in the same way. Sums for layers are not counted.
  int64_t BytesMoved() const {
    int64_t bytes = 0;
    for (const Bucket& bucket : buckets_) bytes += bucket.range.count * element_bytes_;
    const int64_t world = communicator_->world_size();
    return bytes * 2 * (world - 1) / world;
  }

  const std::unique_ptr<StreamCommunicator> communicator_;
  ReplicaUpdate update_;
  Device& device_;
  Stream& stream_;
  const StreamMirroredOptions options_;
  // Bytes of an element in transit.
  const int64_t element_bytes_ = options_.in_bfloat16 ? sizeof(Bfloat16) : sizeof(float);
  std::unique_ptr<Stream> reductions_;
  std::unique_ptr<Event> reduced_;  // Recorded after the step's last bucket.
  std::unique_ptr<Event> layer_computed_, layer_summed_;
  std::unique_ptr<Buffer> progress_;  // [2] int32: for each parity of a step, the number of reduced buckets.
  std::unique_ptr<Buffer> numbers_;   // [buckets] int32: the numbers 1, 2, ...
  std::unique_ptr<Buffer> rounded_;   // [arena] bfloat16; null in float32.

  std::vector<Bucket> buckets_;
  float* gradient_sums_ = nullptr;
  int64_t ready_ranges_ = 0;

  StepInfo step_;  // The step begun last.
  int64_t announced_ = 0;
  size_t next_bucket_ = 0;            // The first bucket that is not enqueued.
  int steps_in_flight_ = 0;           // Steps begun and not known to have ended, including a failed step.
  bool halted_ = false;               // True after Halt.
  std::array<bool, 2> refused_ = {};  // By parity: AwaitEnd has said that the step in flight is not made.
  absl::Status failure_;
  Interruption interruption_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateStreamMirroredStrategy(
    std::unique_ptr<StreamCommunicator> communicator, ReplicaUpdate update, Device& device, Stream& stream,
    StreamMirroredOptions options) {
  if (options.bucket_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tuning.bucket_bytes is ", options.bucket_bytes, "; it must be at least 1"));
  }
  auto strategy = std::make_unique<StreamMirroredStrategy>(std::move(communicator), std::move(update), device,
                                                           stream, options);
  TETHYS_RETURN_IF_ERROR(strategy->Initialize());
  return strategy;
}

}  // namespace tethys
