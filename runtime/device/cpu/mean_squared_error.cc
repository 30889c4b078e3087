#include <algorithm>
#include <cstring>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class MeanSquaredError final : public LossPrimitive {
 public:
  explicit MeanSquaredError(const MeanSquaredErrorShape& shape) : shape_(shape) {}

  absl::Status Run(Stream&, const LossTensors& tensors) override {
    const FlushDenormals flush;
    *tensors.result = LossResult();
    for (int64_t row = 0; row < shape_.rows; ++row) {
      float* gradients =
          tensors.doutputs == nullptr ? nullptr : Floats(tensors.doutputs) + row * shape_.outputs;
      if (tensors.weights[row] != 0.0f) {
        tensors.result->loss_sum += AddRow(row, tensors, gradients);
      } else if (gradients != nullptr) {
        std::fill_n(gradients, shape_.outputs, 0.0f);
      }
    }
    return absl::OkStatus();
  }

 private:
  double AddRow(int64_t row, const LossTensors& tensors, float* gradients) const {
    const float* outputs = Floats(tensors.outputs) + row * shape_.outputs;
    const int32_t* labels = tensors.labels + row * shape_.outputs;
    const float weight = tensors.weights[row];
    const float scale = 2.0f * weight / static_cast<float>(shape_.outputs);
    double sum = 0;
    for (int64_t i = 0; i < shape_.outputs; ++i) {
      float target;
      std::memcpy(&target, labels + i, sizeof(target));
      const float difference = outputs[i] - target;
      sum += static_cast<double>(difference) * difference;
      if (gradients != nullptr) gradients[i] = scale * difference;
    }
    return weight * sum / static_cast<double>(shape_.outputs);
  }

  const MeanSquaredErrorShape shape_;
};

}  // namespace

Created<MeanSquaredErrorShape> Create(const MeanSquaredErrorShape& shape, const Context&) {
  return std::make_unique<MeanSquaredError>(shape);
}

}  // namespace tethys::cpu
