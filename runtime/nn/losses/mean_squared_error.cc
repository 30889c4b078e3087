// Mean squared error: the loss of a row is the mean over its outputs of (output - target)^2. Targets are
// float32, in the shape of the outputs.
#include <utility>

#include "runtime/nn/losses/loss_kinds.h"

namespace tethys {
namespace {

class MeanSquaredError final : public Loss {
 public:
  explicit MeanSquaredError(LabelFormat labels) : labels_(std::move(labels)) {}

  const LabelFormat& labels() const override { return labels_; }
  // A target that is not finite is refused when its file is read.
  absl::Status CheckLabels(absl::Span<const int32_t>) const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<LossPrimitive>> Compile(Device& device, int64_t rows, bool) const override {
    return device.Create(MeanSquaredErrorShape{.rows = rows, .outputs = labels_.elements()});
  }

 private:
  const LabelFormat labels_;
};

absl::StatusOr<std::shared_ptr<const Loss>> Make(const proto::Loss&, const Shape& output, int64_t) {
  // For a model with a single output, a sample has a single target, so the array of targets is [samples].
  const bool single = output.size() == 1 && output[0] == 1;
  return std::make_shared<const MeanSquaredError>(
      LabelFormat{.shape = single ? Shape() : output, .targets = true});
}

}  // namespace

const LossKind kMeanSquaredErrorLoss = {.kind = proto::Loss::kMeanSquaredError, .make = Make};

}  // namespace tethys
