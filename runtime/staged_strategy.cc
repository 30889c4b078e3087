#include "runtime/staged_strategy.h"

#include <string>
#include <utility>
#include <vector>

#include "runtime/await_device.h"
#include "runtime/base/interruption.h"
#include "runtime/base/poll_until.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Invariants:
// 1. Gradient ranges are announced to the inner strategy in ready order, each after it has reached the host.
// 2. The stream downloads_ copies a range after stream_ has computed it. stream_ overwrites a range only
//    after stream_ has uploaded the sums of the previous step. So host gradients are never written while they
//    are uploaded.
class StagedStrategy final : public Strategy {
 public:
  StagedStrategy(std::unique_ptr<Strategy> inner, absl::optional<ReplicaUpdate> update, Device& device,
                 Stream& stream, std::unique_ptr<Stream> downloads, StagingOptions options)
      : update_(std::move(update)),
        device_(device),
        stream_(stream),
        downloads_(std::move(downloads)),
        options_(options),
        inner_(std::move(inner)) {}

  // Waits for all work on the streams, because that work uses the host arenas.
  ~StagedStrategy() override {
    downloads_->Synchronize().IgnoreError();
    stream_.Synchronize().IgnoreError();
  }

  std::string Describe() const override { return inner_->Describe(); }

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                         absl::Span<const Range> ready_order) override {
    arenas_ = arenas;
    ready_order_.assign(ready_order.begin(), ready_order.end());
    runs_ = JoinedRanges(ready_order);
    const int64_t bytes = arenas.arena_size * kFloatBytes;
    TETHYS_ASSIGN_OR_RETURN(gradients_, device_.Allocate(bytes, MemoryKind::kPinnedHost));
    // Without `update_`, the inner strategy needs the parameters in host memory. With `update_`, the inner
    // strategy only sums gradients and never reads parameters.
    if (!update_.has_value()) {
      TETHYS_ASSIGN_OR_RETURN(parameters_, device_.Allocate(bytes, MemoryKind::kPinnedHost));
    } else {
      TETHYS_RETURN_IF_ERROR(update_->Prepare(arenas));
    }
    down_.clear();
    for (size_t i = 0; i < ready_order.size(); ++i) {
      TETHYS_ASSIGN_OR_RETURN(down_.emplace_back(), device_.CreateEvent());
    }
    const StepArenas host{parameters_ == nullptr ? nullptr : parameters_->floats(), gradients_->floats(),
                          arenas.arena_size};
    TETHYS_ASSIGN_OR_RETURN(const StrategyTraits traits, inner_->Prepare(host, ready_order));
    pulls_before_step_ = traits.parameters_change_before_step;
    TETHYS_RETURN_IF_ERROR(UploadParameters());
    return StrategyTraits{.parameters_change_before_step = pulls_before_step_,
                          .updates_here = update_.has_value(),
                          .refused = update_.has_value() ? update_->refused() : nullptr};
  }

  absl::Status BeginStep(const StepInfo& step) override {
    step_ = step;
    announced_ = passed_on_ = 0;
    if (update_.has_value()) update_->SetRates(step);
    if (begun_ && !pulls_before_step_) return inner_->BeginStep(step);
    // The inner strategy may pull in this BeginStep. Earlier uploads must first have finished reading the
    // host's parameters, which the pull overwrites.
    begun_ = true;
    TETHYS_RETURN_IF_ERROR(stream_.Synchronize());
    TETHYS_RETURN_IF_ERROR(inner_->BeginStep(step));
    return UploadParameters();
  }

  absl::Status GradientReady(int64_t index, const Event& event) override {
    TETHYS_CHECK(index == announced_, "range ", index, " was announced, but range ", announced_,
                 " must come next");
    TETHYS_RETURN_IF_ERROR(interruption_.Check());
    const Range range = ready_order_[index];
    TETHYS_RETURN_IF_ERROR(event.Wait(*downloads_));
    TETHYS_RETURN_IF_ERROR(device_.CopyToHost(*downloads_, gradients_->floats() + range.begin,
                                              arenas_.gradient_sums + range.begin,
                                              range.count * kFloatBytes));
    TETHYS_RETURN_IF_ERROR(down_[index]->Record(*downloads_));
    ++announced_;
    return PassOn();
  }

  absl::Status EnqueueEnd(int parity) override {
    const auto all_passed_on = [this]() -> absl::StatusOr<bool> {
      TETHYS_RETURN_IF_ERROR(interruption_.Check());
      TETHYS_RETURN_IF_ERROR(PassOn());
      return passed_on_ == announced_;
    };
    TETHYS_ASSIGN_OR_RETURN(const bool in_time,
                            PollUntil(all_passed_on, options_.step_timeout, *options_.clock));
    if (!in_time) return DeviceFailed(LateError());
    TETHYS_RETURN_IF_ERROR(inner_->EnqueueEnd(parity));
    TETHYS_ASSIGN_OR_RETURN(outcome_, inner_->AwaitEnd(step_, *down_.back()));
    if (!update_.has_value()) return pulls_before_step_ ? absl::OkStatus() : UploadParameters();
    for (const Range& range : ready_order_) {
      TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(stream_, arenas_.gradient_sums + range.begin,
                                                  gradients_->floats() + range.begin,
                                                  range.count * kFloatBytes));
    }
    TETHYS_ASSIGN_OR_RETURN(outcome_.update_ns, update_->Enqueue(parity));
    return absl::OkStatus();
  }

  // The device completes the step without other processes, so an interrupt does not end this wait.
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo& step, const Event& done) override {
    const absl::Status ended = AwaitDevice(done, options_.step_timeout, *options_.clock);
    if (!ended.ok()) return DeviceFailed(ended);
    if (update_.has_value()) TETHYS_RETURN_IF_ERROR(update_->Check(step));
    return outcome_;
  }

  absl::Status Refresh() override {
    TETHYS_RETURN_IF_ERROR(device_failure_);
    TETHYS_RETURN_IF_ERROR(stream_.Synchronize());
    TETHYS_RETURN_IF_ERROR(inner_->Refresh());
    return UploadParameters();
  }

  std::vector<absl::Span<float>> slots() override {
    return update_.has_value() ? update_->slots() : inner_->slots();
  }

  void Interrupt(const absl::Status& status) override {
    interruption_.Raise(status);
    inner_->Interrupt(status);
  }

 private:
  // Announces to the inner strategy the ranges that have reached the host since the last call.
  absl::Status PassOn() {
    for (; passed_on_ < announced_; ++passed_on_) {
      TETHYS_ASSIGN_OR_RETURN(const bool here, down_[passed_on_]->Happened());
      if (!here) break;
      TETHYS_RETURN_IF_ERROR(inner_->GradientReady(passed_on_, *down_[passed_on_]));
    }
    return absl::OkStatus();
  }

  absl::Status UploadParameters() {
    if (parameters_ == nullptr) return absl::OkStatus();
    for (const Range& run : runs_) {
      TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(stream_, arenas_.parameters + run.begin,
                                                  parameters_->floats() + run.begin,
                                                  run.count * kFloatBytes));
    }
    return absl::OkStatus();
  }

  // Lets Refresh return a failure of the device at once, instead of waiting for the device, and with a code
  // that no failure of an exchange has. Returns `failed`.
  absl::Status DeviceFailed(const absl::Status& failed) {
    device_failure_ = absl::InternalError(failed.message());
    return failed;
  }

  absl::Status LateError() const {
    const Range range = ready_order_[passed_on_];
    return DeviceLateError(
        absl::StrCat("step ", step_.step, ": ", device_.Describe(), " did not finish the gradients of [",
                     range.begin, ", ", range.end(), ")"),
        options_.step_timeout);
  }

  absl::optional<ReplicaUpdate> update_;
  Device& device_;
  Stream& stream_;
  const std::unique_ptr<Stream> downloads_;
  const StagingOptions options_;

  StepArenas arenas_;  // The arenas, in device memory.
  std::vector<Range> ready_order_;
  std::vector<Range> runs_;             // ready_order_, sorted, with adjacent ranges merged.
  std::unique_ptr<Buffer> gradients_;   // Pinned host memory, laid out like the device's arena.
  std::unique_ptr<Buffer> parameters_;  // Like gradients_. Null if the device updates the parameters.
  // For each range, an event recorded when the range has reached the host.
  std::vector<std::unique_ptr<Event>> down_;
  // Destroyed before the host's arenas, because its threads may still use them.
  const std::unique_ptr<Strategy> inner_;
  Interruption interruption_;
  absl::Status device_failure_;

  bool begun_ = false;
  bool pulls_before_step_ = false;
  StepInfo step_;
  int64_t announced_ = 0;
  int64_t passed_on_ = 0;
  StepOutcome outcome_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateStagedStrategy(std::unique_ptr<Strategy> inner,
                                                               absl::optional<ReplicaUpdate> update,
                                                               Device& device, Stream& stream,
                                                               StagingOptions options) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Stream> downloads, device.CreateStream());
  return std::make_unique<StagedStrategy>(std::move(inner), std::move(update), device, stream,
                                          std::move(downloads), options);
}

}  // namespace tethys
