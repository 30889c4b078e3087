#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/tensor/arena.h"

namespace tethys::cpu {
namespace {

constexpr int kTop = 5;

// True if the first maximum is at `label`. `below` are the outputs minus their maximum.
bool LabelIsFirstMaximum(const float* below, int64_t label) {
  if (below[label] != 0.0f) return false;
  for (int64_t c = 0; c < label; ++c) {
    if (below[c] == 0.0f) return false;
  }
  return true;
}

bool LabelIsAmongTop(const float* below, int64_t label, int64_t classes) {
  int64_t before = 0;
  for (int64_t c = 0; c < classes; ++c) {
    before += below[c] > below[label] || (below[c] == below[label] && c < label) ? 1 : 0;
  }
  return before < kTop;
}

class SoftmaxCrossEntropy final : public LossPrimitive {
 public:
  // `below` and `powers` must have chunk_points x classes elements each.
  SoftmaxCrossEntropy(const SoftmaxCrossEntropyShape& shape, int64_t chunk_points, const Kernels& kernels,
                      Arena below, Arena powers)
      : shape_(shape),
        chunk_points_(chunk_points),
        scale_(static_cast<float>(1.0 / static_cast<double>(shape.positions))),
        kernels_(kernels),
        below_(std::move(below)),
        powers_(std::move(powers)) {}

  absl::Status Run(Stream&, const LossTensors& tensors) override {
    const FlushDenormals flush;
    *tensors.result = LossResult();
    for (int64_t first = 0; first < shape_.points(); first += chunk_points_) RunChunk(first, tensors);
    return absl::OkStatus();
  }

 private:
  void RunChunk(int64_t first, const LossTensors& tensors) {
    const int64_t classes = shape_.classes;
    kernels_.subtract_row_maximum(chunk_points_, classes, Floats(tensors.outputs) + first * classes,
                                  below_.data());
    std::copy_n(below_.data(), chunk_points_ * classes, powers_.data());
    kernels_.exponentials(chunk_points_ * classes, powers_.data());
    for (int64_t i = 0; i < chunk_points_; ++i) {
      const int64_t point = first + i;
      float* gradients = tensors.doutputs == nullptr ? nullptr : Floats(tensors.doutputs) + point * classes;
      const float weight = tensors.weights[point / shape_.positions];
      const int32_t label = tensors.labels[point];
      if (weight != 0.0f && label != shape_.ignore_label) {
        AddPoint(i, label, weight, tensors, gradients);
      } else if (gradients != nullptr) {
        std::fill_n(gradients, classes, 0.0f);
      }
    }
  }

  // Adds the loss, the counts and the gradients of point i of the chunk.
  void AddPoint(int64_t i, int64_t label, float weight, const LossTensors& tensors, float* gradients) const {
    const int64_t classes = shape_.classes;
    const float* below = below_.data() + i * classes;
    const float* powers = powers_.data() + i * classes;
    float sum = 0.0f;
    for (int64_t c = 0; c < classes; ++c) sum += powers[c];
    LossResult& result = *tensors.result;
    result.loss_sum += weight * scale_ * (std::log(sum) - Expected(below, label));
    result.correct += LabelIsFirstMaximum(below, label) ? weight : 0.0f;
    result.labels += weight;
    if (shape_.counts_top5) result.correct_top5 += LabelIsAmongTop(below, label, classes) ? weight : 0.0f;
    if (tensors.confusion != nullptr) {
      ++tensors.confusion[label * classes + (std::max_element(below, below + classes) - below)];
    }
    if (gradients == nullptr) return;
    const float share = weight * scale_;
    const float scale = share / sum;
    const float other = share * shape_.label_smoothing / static_cast<float>(classes);
    for (int64_t c = 0; c < classes; ++c) gradients[c] = scale * powers[c] - other;
    gradients[label] -= share * (1.0f - shape_.label_smoothing);
  }

  // The mean of `below`, weighted by the target distribution (the label, smoothed by label_smoothing).
  float Expected(const float* below, int64_t label) const {
    if (shape_.label_smoothing == 0.0f) return below[label];
    float sum = 0.0f;
    for (int64_t c = 0; c < shape_.classes; ++c) sum += below[c];
    return (1.0f - shape_.label_smoothing) * below[label] +
           shape_.label_smoothing / static_cast<float>(shape_.classes) * sum;
  }

  const SoftmaxCrossEntropyShape shape_;
  const int64_t chunk_points_;
  const float scale_;  // The weight of a position in the loss of its row.
  const Kernels& kernels_;
  Arena below_;   // [chunk points, classes]: outputs minus the maximum of their position.
  Arena powers_;  // [chunk points, classes]: the exponentials of `below_`.
};

}  // namespace

Created<SoftmaxCrossEntropyShape> Create(const SoftmaxCrossEntropyShape& shape, const Context& context) {
  // Processes label maps row by row, so that the scratch memory does not grow with the batch.
  const int64_t chunk_points = shape.positions > 1 ? shape.positions : shape.rows;
  TETHYS_ASSIGN_OR_RETURN(Arena below, Arena::Allocate(chunk_points * shape.classes));
  TETHYS_ASSIGN_OR_RETURN(Arena powers, Arena::Allocate(chunk_points * shape.classes));
  return std::make_unique<SoftmaxCrossEntropy>(shape, chunk_points, context.kernels, std::move(below),
                                               std::move(powers));
}

}  // namespace tethys::cpu
