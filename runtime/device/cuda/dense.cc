// Dense layers: products run on cuBLASLt, whose epilogue adds the bias to float32 results if no relu follows.
// The relu is our own kernel, because it must keep NaN, which cuBLASLt's relu does not promise. The backward
// mask is our own kernel too, which sums the bias gradient in the same pass.
#include <algorithm>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/operand.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

class Dense final : public DensePrimitive {
 public:
  Dense(const Libraries& libraries, const DenseShape& shape) : libraries_(libraries), shape_(shape) {}

  absl::Status Initialize() {
    const auto [rows, in, out, relu] = shape_;
    const ElementType type = libraries_.activations;
    TETHYS_RETURN_IF_ERROR(
        CreateProduct({.m = rows, .n = out, .k = in, .bias = !adds_bias_after(), .result = type}, forward_));
    TETHYS_RETURN_IF_ERROR(CreateProduct({.m = in, .n = out, .k = rows, .transpose_a = true}, weights_));
    TETHYS_RETURN_IF_ERROR(
        CreateProduct({.m = rows, .n = in, .k = out, .transpose_b = true, .result = type}, data_));
    TETHYS_RETURN_IF_ERROR(weights_operand_.Initialize(libraries_, in * out));
    return libraries_.workspace->Reserve(
        std::max({forward_->workspace_bytes(), weights_->workspace_bytes(), data_->workspace_bytes(),
                  ColumnSumScratch(rows, out) * static_cast<int64_t>(sizeof(float))}));
  }

  absl::Status Forward(Stream& stream, const void* x, const float* weights, const float* bias,
                       void* y) override {
    TETHYS_ASSIGN_OR_RETURN(const void* b, weights_operand_.Read(stream, weights));
    if (!adds_bias_after()) return forward_->Run(stream, x, b, bias, y, libraries_.workspace->data());
    TETHYS_RETURN_IF_ERROR(forward_->Run(stream, x, b, nullptr, y, libraries_.workspace->data()));
    TETHYS_RETURN_IF_CUDA_ERROR(
        AddBias(Handle(stream), libraries_.activations, shape_.rows, shape_.out, shape_.relu, bias, y));
    return absl::OkStatus();
  }

  absl::Status Backward(Stream& stream, const void* x, const float* weights, const void* y, void* dy,
                        void* dx, float* dweights, float* dbias) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaskAndSumColumns(Handle(stream), libraries_.activations, shape_.rows,
                                                  shape_.out, shape_.relu ? y : nullptr, dy, dbias,
                                                  libraries_.workspace->floats()));
    TETHYS_RETURN_IF_ERROR(weights_->Run(stream, x, dy, nullptr, dweights, libraries_.workspace->data()));
    if (dx == nullptr) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(const void* weights_operand, weights_operand_.Read(stream, weights));
    return data_->Run(stream, dy, weights_operand, nullptr, dx, libraries_.workspace->data());
  }

  std::string Describe() const override { return "forward cuBLASLt, data cuBLASLt, weights cuBLASLt"; }

 private:
  // cuBLASLt's epilogue adds no float32 bias to bfloat16 results.
  bool adds_bias_after() const { return shape_.relu || libraries_.activations != ElementType::kFloat32; }
  absl::Status CreateProduct(const MatmulShape& shape, std::unique_ptr<Matmul>& product) {
    TETHYS_ASSIGN_OR_RETURN(product, Matmul::Create(libraries_.cublas, shape, libraries_.precision));
    return absl::OkStatus();
  }

  const Libraries libraries_;
  const DenseShape shape_;
  std::unique_ptr<Matmul> forward_, weights_, data_;
  Operand weights_operand_;
};

}  // namespace

Created<DenseShape> Create(const DenseShape& shape, const Libraries& libraries) {
  auto dense = std::make_unique<Dense>(libraries, shape);
  TETHYS_RETURN_IF_ERROR(dense->Initialize());
  return dense;
}

}  // namespace tethys::cuda
