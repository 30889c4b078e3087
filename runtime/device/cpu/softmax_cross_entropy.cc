#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/tensor/arena.h"

namespace tethys::cpu {
namespace {

// True if the first maximum of the row is at `label`. `below` is the row minus its maximum.
bool LabelIsFirstMaximum(const float* below, int64_t label) {
  if (below[label] != 0.0f) return false;
  for (int64_t c = 0; c < label; ++c) {
    if (below[c] == 0.0f) return false;
  }
  return true;
}

class SoftmaxCrossEntropy final : public SoftmaxCrossEntropyPrimitive {
 public:
  // `below` and `powers` hold rows x classes elements each.
  SoftmaxCrossEntropy(int64_t rows, int64_t classes, const Kernels& kernels, Arena below, Arena powers)
      : rows_(rows),
        classes_(classes),
        kernels_(kernels),
        below_(std::move(below)),
        powers_(std::move(powers)) {}

  absl::Status Run(Stream&, const float* logits, const int32_t* labels, const float* weights, float* dlogits,
                   LossResult* result) override {
    const FlushDenormals flush;
    kernels_.subtract_row_maximum(rows_, classes_, logits, below_.data());
    std::copy_n(below_.data(), rows_ * classes_, powers_.data());
    kernels_.exponentials(rows_ * classes_, powers_.data());
    *result = LossResult();
    for (int64_t r = 0; r < rows_; ++r) {
      float* gradients = dlogits == nullptr ? nullptr : dlogits + r * classes_;
      if (weights[r] != 0.0f) {
        AddRow(r, labels[r], weights[r], gradients, result);
      } else if (gradients != nullptr) {
        std::fill_n(gradients, classes_, 0.0f);
      }
    }
    return absl::OkStatus();
  }

 private:
  void AddRow(int64_t row, int64_t label, float weight, float* gradients, LossResult* result) const {
    const float* below = below_.data() + row * classes_;
    const float* powers = powers_.data() + row * classes_;
    float sum = 0.0f;
    for (int64_t c = 0; c < classes_; ++c) sum += powers[c];
    result->loss_sum += weight * (std::log(sum) - below[label]);
    result->correct += LabelIsFirstMaximum(below, label) ? weight : 0.0f;
    result->weight_sum += weight;
    if (gradients == nullptr) return;
    const float scale = weight / sum;
    for (int64_t c = 0; c < classes_; ++c) gradients[c] = scale * powers[c];
    gradients[label] -= weight;
  }

  const int64_t rows_;
  const int64_t classes_;
  const Kernels& kernels_;
  Arena below_;   // [rows, classes]: logits minus the row's maximum.
  Arena powers_;  // [rows, classes]: the exponentials of `below_`.
};

}  // namespace

absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyPrimitive>> CreateSoftmaxCrossEntropy(
    int64_t rows, int64_t classes, const Kernels& kernels) {
  TETHYS_ASSIGN_OR_RETURN(Arena below, Arena::Allocate(rows * classes));
  TETHYS_ASSIGN_OR_RETURN(Arena powers, Arena::Allocate(rows * classes));
  return std::make_unique<SoftmaxCrossEntropy>(rows, classes, kernels, std::move(below), std::move(powers));
}

}  // namespace tethys::cpu
