// The products of cuBLASLt and the convolutions of cuDNN as plain loops on the host, so that tests run all of
// the CUDA back end's own code without a GPU. This file is linked in place of these libraries, and
// cuda_runtime_on_host.cc in place of the CUDA runtime.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cudnn.h>

#include <cstring>
#include <vector>

#include "runtime/device/cuda/cudnn_graph.h"
#include "runtime/device/cuda/graph.h"
#include "runtime/device/cuda/matmul.h"
#include "runtime/device/cuda/nccl_communicator.h"
#include "runtime/device/cuda/profiler.h"
#include "runtime/device/cuda/requirements.h"
#include "tests/testing/reference_images.h"

cublasStatus_t cublasLtCreate(cublasLtHandle_t*) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cudnnStatus_t cudnnCreate(cudnnHandle_t*) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }

namespace tethys::cuda {

absl::StatusOr<Gpu> TakeGpu(int) { return Gpu{.uuid = std::string(16, 'h'), .description = "the host"}; }
void BeginRange(const char*, int64_t) {}
void EndRange() {}
absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream&, absl::FunctionRef<absl::Status()>) {
  return absl::UnimplementedError("the host captures no graphs");
}
absl::StatusOr<std::string> NewNcclGroupId() { return absl::UnimplementedError("the host has no NCCL"); }
absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinNcclGroup(const StreamGroup&) {
  return absl::UnimplementedError("the host has no NCCL");
}

// ------------------------------------------------------------------------ products and convolutions

namespace {

constexpr int64_t kWorkspaceBytes = 4096;

// The elements of an operand, stored as float or as bfloat16.
class Elements {
 public:
  Elements(ElementType type, const void* data)
      : bfloat16_(type == ElementType::kBfloat16), data_(const_cast<void*>(data)) {}
  double operator[](int64_t i) const {
    return bfloat16_ ? __bfloat162float(static_cast<__nv_bfloat16*>(data_)[i])
                     : static_cast<float*>(data_)[i];
  }
  std::vector<double> Decoded(int64_t count) const {
    std::vector<double> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = (*this)[i];
    return values;
  }
  void Set(int64_t i, double value) const {
    if (bfloat16_) {
      static_cast<__nv_bfloat16*>(data_)[i] = __float2bfloat16_rn(static_cast<float>(value));
    } else {
      static_cast<float*>(data_)[i] = static_cast<float>(value);
    }
  }

 private:
  const bool bfloat16_;
  void* const data_;
};

ElementType OperandType(Precision precision) {
  return precision == Precision::kBf16 ? ElementType::kBfloat16 : ElementType::kFloat32;
}

class HostMatmul final : public Matmul {
 public:
  HostMatmul(const MatmulShape& shape, Precision precision) : shape_(shape), type_(OperandType(precision)) {}
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }

  absl::Status Run(Stream&, const void* a_data, const void* b_data, const float* bias, void* c_data,
                   void* workspace) override {
    for (const void* array : {a_data, b_data, static_cast<const void*>(c_data)}) {
      TETHYS_CHECK(reinterpret_cast<uintptr_t>(array) % 16 == 0, "an operand of a product is not aligned");
    }
    std::memset(workspace, 0xff, kWorkspaceBytes);
    const auto [m, n, k, transpose_a, transpose_b, has_bias, result, accumulate] = shape_;
    const std::vector<double> a = Elements(type_, a_data).Decoded(m * k),
                              b = Elements(type_, b_data).Decoded(k * n);
    const Elements c(result, c_data);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = (has_bias ? bias[j] : 0) + (accumulate ? c[i * n + j] : 0);
        for (int64_t p = 0; p < k; ++p) {
          sum += a[transpose_a ? p * m + i : i * k + p] * b[transpose_b ? j * k + p : p * n + j];
        }
        c.Set(i * n + j, sum);
      }
    }
    return absl::OkStatus();
  }

 private:
  const MatmulShape shape_;
  const ElementType type_;
};

class HostConvolution final : public ConvolutionPlan {
 public:
  HostConvolution(ConvolutionPass pass, const ConvolutionShape& shape, Precision precision)
      : pass_(pass), shape_(shape), type_(OperandType(precision)) {}
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }
  std::string Describe() const override { return "host"; }

  absl::Status Run(Stream&, const void* images, const void* filters, const void* outputs,
                   void* workspace) override {
    std::memset(workspace, 0xff, kWorkspaceBytes);
    const Elements x_array(type_, images), f_array(type_, filters), y_array(type_, outputs);
    const std::vector<double> x = x_array.Decoded(shape_.rows * shape_.in.elements()),
                              f = f_array.Decoded(shape_.filters()),
                              y = y_array.Decoded(shape_.rows * shape_.output().elements());
    if (pass_ == ConvolutionPass::kForward) {
      Write(y_array, y.size(), [&](int64_t from, int64_t filter, int64_t to, std::vector<double>& sums) {
        sums[to] += x[from] * f[filter];
      });
    } else if (pass_ == ConvolutionPass::kData) {
      Write(x_array, x.size(), [&](int64_t from, int64_t filter, int64_t to, std::vector<double>& sums) {
        sums[from] += f[filter] * y[to];
      });
    } else {
      Write(f_array, f.size(), [&](int64_t from, int64_t filter, int64_t to, std::vector<double>& sums) {
        sums[filter] += x[from] * y[to];
      });
    }
    return absl::OkStatus();
  }

 private:
  // Calls `add` for every product, to add it to one of `count` sums, and then writes the sums to `out`.
  template <typename Add>
  void Write(const Elements& out, int64_t count, const Add& add) {
    std::vector<double> sums(count);
    ForEachProduct(shape_, [&](int64_t from, int64_t filter, int64_t to) { add(from, filter, to, sums); });
    for (int64_t i = 0; i < count; ++i) out.Set(i, sums[i]);
  }

  const ConvolutionPass pass_;
  const ConvolutionShape shape_;
  const ElementType type_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(cublasLtHandle_t, const MatmulShape& shape,
                                                       Precision precision) {
  return std::make_unique<HostMatmul>(shape, precision);
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> CreateCudnnPlan(const CudnnTarget&, ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 Precision precision) {
  return std::make_unique<HostConvolution>(pass, shape, precision);
}

}  // namespace tethys::cuda
