// Softmax cross-entropy: the loss of a position is -log softmax(outputs)[label], the loss of a row the mean
// over its positions. Outputs are [classes] with one label, or [height, width, classes] with a label for each
// pixel.
#include <utility>

#include "runtime/nn/losses/loss_kinds.h"

namespace tethys {
namespace {

constexpr int64_t kMostConfusionClasses = 256;
constexpr int64_t kTop = 5;

class SoftmaxCrossEntropy final : public Loss {
 public:
  // `row` is the shape of the loss for one row.
  SoftmaxCrossEntropy(const SoftmaxCrossEntropyShape& row, LabelFormat labels)
      : row_(row), labels_(std::move(labels)) {}

  const LabelFormat& labels() const override { return labels_; }
  int64_t confusion_classes() const override {
    return !labels_.shape.empty() && row_.classes <= kMostConfusionClasses ? row_.classes : 0;
  }
  absl::Status CheckLabels(absl::Span<const int32_t> labels) const override {
    for (size_t i = 0; i < labels.size(); ++i) {
      const bool ignored = row_.ignore_label >= 0 && labels[i] == row_.ignore_label;
      if (ignored || (labels[i] >= 0 && labels[i] < row_.classes)) continue;
      return absl::InvalidArgumentError(absl::StrCat("row ", static_cast<int64_t>(i) / row_.positions,
                                                     " of the batch has label ", labels[i],
                                                     ", which is not in [0, ", row_.classes, ")"));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<LossPrimitive>> Compile(Device& device, int64_t rows,
                                                         bool trains) const override {
    SoftmaxCrossEntropyShape shape = row_;
    shape.rows = rows;
    shape.counts_top5 = !trains && row_.classes > kTop;
    if (!trains) shape.label_smoothing = 0;
    return device.Create(shape);
  }

 private:
  const SoftmaxCrossEntropyShape row_;
  const LabelFormat labels_;
};

absl::StatusOr<std::shared_ptr<const Loss>> Make(const proto::Loss& loss, const Shape& output,
                                                 int64_t classes) {
  const proto::SoftmaxCrossEntropy& fields = loss.softmax_cross_entropy();
  if ((output.size() != 1 && output.size() != 3) || output.back() != classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last layer gives shape ", ShapeText(output), ", but data.classes is ", classes,
                     ": the last layer must give one logit per class, [", classes,
                     "], or, for maps of labels, [height, "
                     "width, ",
                     classes, "]"));
  }
  LabelFormat labels;
  if (output.size() == 3) labels.shape = {output[0], output[1]};
  const SoftmaxCrossEntropyShape row = {
      .rows = 1,
      .positions = labels.elements(),
      .classes = classes,
      .label_smoothing = static_cast<float>(fields.label_smoothing()),
      .ignore_label = fields.has_ignore_label() ? fields.ignore_label() : -1};
  return std::make_shared<const SoftmaxCrossEntropy>(row, std::move(labels));
}

}  // namespace

const LossKind kSoftmaxCrossEntropyLoss = {.kind = proto::Loss::kSoftmaxCrossEntropy, .make = Make};

}  // namespace tethys
