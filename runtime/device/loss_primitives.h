// Primitives that compare a model's outputs with labels: losses, their gradients and the counts for metrics.
// Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_LOSS_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_LOSS_PRIMITIVES_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace tethys {

class Stream;

// Sums over the rows of a batch, in device memory.
struct LossResult {
  double loss_sum = 0;  // Sum of the losses of the rows, each times the row's weight.
  // The number of labels for which the model's largest output (the first, on a tie) is the output of the
  // label.
  double correct = 0;
  double labels = 0;  // The number of labels that were compared with outputs; 0 if the loss has no classes.
  // The number of labels whose output is among the five largest, if the primitive counts such labels.
  double correct_top5 = 0;
};

// The tensors of a loss. Rows of weight 0 are padding: they have zero gradients, even if their outputs are
// NaN, and add to no sum. Other rows have weight 1.
struct LossTensors {
  const void* outputs = nullptr;
  // Class indices; for a loss with targets, the bits of float32 values.
  const int32_t* labels = nullptr;
  const float* weights = nullptr;  // One weight for each row: [rows].
  void* doutputs = nullptr;      // Gradients of loss_sum, overwritten. Null: the caller needs only the loss.
  LossResult* result = nullptr;  // Receives the sums.
  // [classes, classes]: element (i, j) grows by the number of labels of class i for which class j has the
  // largest output. Null: these labels are not counted.
  int64_t* confusion = nullptr;
};

class LossPrimitive {
 public:
  virtual ~LossPrimitive() = default;
  virtual absl::Status Run(Stream& stream, const LossTensors& tensors) = 0;
};

// Softmax cross-entropy of outputs [rows, positions, classes] with labels [rows, positions]. A row's loss is
// the sum of the losses of its positions, divided by the number of positions. With s = softmax(outputs) and
// the target t = (1 - label_smoothing) onehot(label) + label_smoothing / classes, the loss of a position is
// -sum t log(s). The gradient of the row's loss with respect to the outputs of the position is (s - t) /
// positions. Labels are in [0, classes) or are ignore_label; a position with ignore_label adds to no sum and
// has zero gradients.
struct SoftmaxCrossEntropyShape {
  using Primitive = LossPrimitive;
  int64_t rows = 0;
  int64_t positions = 1;
  int64_t classes = 0;
  float label_smoothing = 0;
  int32_t ignore_label = -1;  // Below 0: no label is ignored.
  bool counts_top5 = false;
  constexpr int64_t points() const { return rows * positions; }
};

// The loss of a row is the mean of (output - target)^2 over the row's outputs. Outputs and targets are [rows,
// outputs].
struct MeanSquaredErrorShape {
  using Primitive = LossPrimitive;
  int64_t rows = 0;
  int64_t outputs = 0;
};

// InvalidArgument: an axis below 1, or smoothing outside [0, 1).
inline absl::Status CheckShape(const SoftmaxCrossEntropyShape& shape) {
  const bool valid = shape.rows >= 1 && shape.positions >= 1 && shape.classes >= 1 &&
                     shape.label_smoothing >= 0 && shape.label_smoothing < 1;
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a softmax cross-entropy has ", shape.rows, " rows, ", shape.positions, " positions and ",
                   shape.classes, " classes with label smoothing ", shape.label_smoothing,
                   "; each number must be 1 or more, and the smoothing in [0, 1)"));
}
inline absl::Status CheckShape(const MeanSquaredErrorShape& shape) {
  if (shape.rows >= 1 && shape.outputs >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a mean squared error has ", shape.rows, " rows and ",
                                                 shape.outputs, " outputs; each number must be 1 or more"));
}

// The shapes of this header, for the table in primitive_factory.h.
#define TETHYS_LOSS_PRIMITIVES(ROW) \
  ROW(SoftmaxCrossEntropyShape)     \
  ROW(MeanSquaredErrorShape)

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_LOSS_PRIMITIVES_H_
