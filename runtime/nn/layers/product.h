// The common part of dense layers and convolutions: y = activation(x W + b), with a device's primitive.
#ifndef TETHYS_RUNTIME_NN_LAYERS_PRODUCT_H_
#define TETHYS_RUNTIME_NN_LAYERS_PRODUCT_H_

#include <memory>
#include <string>
#include <utility>

#include "proto/job.pb.h"
#include "runtime/nn/layers/activation.h"
#include "runtime/nn/layers/layer_kind.h"
#include "runtime/nn/layers/operation.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// A compiled layer whose variables are the weights (or filters) and, if there is one, the bias.
template <typename Primitive>
class CompiledProduct final : public CompiledLayer {
 public:
  CompiledProduct(std::unique_ptr<Primitive> primitive, int64_t workspace_bytes,
                  absl::Span<const VariableMemory> variables)
      : primitive_(std::move(primitive)),
        workspace_bytes_(workspace_bytes),
        weights_(variables[0]),
        bias_(variables.size() > 1 ? variables[1] : VariableMemory()) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    return primitive_->Forward(stream, tensors.x[0], weights_.values, bias_.values, tensors.y);
  }
  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    return primitive_->Backward(stream, tensors.x[0], weights_.values, tensors.y, tensors.dy, tensors.dx[0],
                                weights_.gradient_sums, bias_.gradient_sums);
  }
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string Describe() const override { return primitive_->Describe(); }

 private:
  const std::unique_ptr<Primitive> primitive_;
  const int64_t workspace_bytes_;
  const VariableMemory weights_;
  const VariableMemory bias_;
};

// Gives a layer without an initializer the default one, which depends on the layer's activation. `Layer` is
// proto::Dense or proto::Convolution.
template <typename Layer>
void CompleteInitializer(Layer& layer) {
  if (layer.initializer() != proto::INITIALIZER_DEFAULT) return;
  const bool rectified = layer.activation() == proto::RELU || layer.activation() == proto::RELU6;
  layer.set_initializer(rectified ? proto::HE_NORMAL : proto::GLOROT_UNIFORM);
}

// Adds the layer's weights, which are called `name`, and its bias, if it has one. `in` and `out` are the
// sizes of the axes of these names in `shape`. The variable's fan_in is the number of weights divided by
// `out`, and its fan_out is the number of weights divided by `in`.
inline absl::Status AddWeightsAndBias(LayerScope& scope, absl::string_view name, const Shape& shape,
                                      const std::string& layout, proto::Initializer initializer, int64_t in,
                                      int64_t out, bool has_bias = true) {
  if (initializer == proto::BILINEAR && layout != kBilinearLayout) {
    return absl::InvalidArgumentError(
        "has the initializer BILINEAR, which is for transposed convolutions: give another initializer");
  }
  const absl::StatusOr<int64_t> elements = ElementCount(shape);
  // If there are too many elements, AddVariable refuses the shape.
  const int64_t count = elements.ok() ? *elements : 0;
  const InitialValue weights = initializer == proto::HE_NORMAL           ? InitialValue::kHeNormal
                               : initializer == proto::HE_NORMAL_FAN_OUT ? InitialValue::kHeNormalFanOut
                               : initializer == proto::BILINEAR          ? InitialValue::kBilinear
                                                                         : InitialValue::kGlorotUniform;
  TETHYS_RETURN_IF_ERROR(scope.AddVariable(name, shape, layout, weights, count / out, count / in));
  if (!has_bias) return absl::OkStatus();
  return scope.AddVariable("bias", {out}, "out", InitialValue::kZeros, count / out, count / in);
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_PRODUCT_H_
