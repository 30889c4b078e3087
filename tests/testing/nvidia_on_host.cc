// What the CUDA back end calls of NVIDIA's, as plain loops on the host, so that all that is ours in it runs
// in tests without a GPU: the parts of the runtime it needs, whose work happens at once, and products and
// convolutions in place of cuBLASLt and cuDNN. Linked instead of them.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/device/cuda/cudnn_graph.h"
#include "runtime/device/cuda/graph.h"
#include "runtime/device/cuda/matmul.h"
#include "runtime/device/cuda/nccl_communicator.h"
#include "runtime/device/cuda/profiler.h"
#include "runtime/device/cuda/requirements.h"
#include "tests/testing/reference_images.h"

// ------------------------------------------------------------------------------------- the runtime

namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMemoryBytes = 64 << 20;  // As much as the suites need, so that a test can ask for too much.

std::map<void*, size_t> blocks;  // Bytes of what is allocated.
size_t used_bytes = 0;
cudaError_t last_error = cudaSuccess;

// Filled with NaN, so that what is not zeroed is noticed.
cudaError_t Allocate(void** memory, size_t bytes) {
  if (bytes > kMemoryBytes - used_bytes) return last_error = cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(*memory, 0xff, bytes);
  used_bytes += blocks[*memory] = bytes;
  return cudaSuccess;
}
cudaError_t Copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t Free(void* memory) {
  used_bytes -= blocks.extract(memory).mapped();
  std::free(memory);
  return cudaSuccess;
}
cudaError_t NothingToDo() { return cudaSuccess; }

}  // namespace

const char* cudaGetErrorString(cudaError_t) { return "an error on the host"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOnHost"; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaDeviceSynchronize() { return NothingToDo(); }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return NothingToDo(); }

cudaError_t cudaMalloc(void** memory, size_t bytes) { return Allocate(memory, bytes); }
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return Allocate(memory, bytes); }
cudaError_t cudaFree(void* memory) { return Free(memory); }
cudaError_t cudaFreeHost(void* memory) { return Free(memory); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = kMemoryBytes;
  *free = kMemoryBytes - used_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return Copy(to, from, bytes);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return Copy(to, from, bytes);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return NothingToDo(); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return NothingToDo(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return NothingToDo(); }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return NothingToDo(); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return NothingToDo(); }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned) { return NothingToDo(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return NothingToDo(); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;
  return cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t*) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error on the host"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t*) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error on the host"; }
void cudnnGetLastErrorString(char* text, size_t) { *text = '\0'; }

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

// Elements of an operand in the format that a precision keeps it in.
class Elements {
 public:
  Elements(Precision precision, const void* data)
      : bfloat16_(precision == Precision::kBf16), data_(const_cast<void*>(data)) {}
  double operator[](int64_t i) const {
    return bfloat16_ ? __bfloat162float(static_cast<__nv_bfloat16*>(data_)[i])
                     : static_cast<float*>(data_)[i];
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

class HostMatmul final : public Matmul {
 public:
  HostMatmul(const MatmulShape& shape, Precision precision) : shape_(shape), precision_(precision) {}
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }

  absl::Status Run(Stream&, const void* a_data, const void* b_data, const float* bias, float* c,
                   void* workspace) override {
    std::memset(workspace, 0xff, kWorkspaceBytes);
    const auto [m, n, k, transpose_a, transpose_b, has_bias] = shape_;
    const Elements a(precision_, a_data), b(precision_, b_data);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = has_bias ? bias[j] : 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += a[transpose_a ? p * m + i : i * k + p] * b[transpose_b ? j * k + p : p * n + j];
        }
        c[i * n + j] = static_cast<float>(sum);
      }
    }
    return absl::OkStatus();
  }

 private:
  const MatmulShape shape_;
  const Precision precision_;
};

class HostConvolution final : public ConvolutionPlan {
 public:
  HostConvolution(ConvolutionPass pass, const ConvolutionShape& shape, Precision precision)
      : pass_(pass), shape_(shape), precision_(precision) {}
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }
  int64_t engine() const override { return 0; }

  absl::Status Run(Stream&, const void* images, const void* filters, const void* outputs,
                   void* workspace) override {
    std::memset(workspace, 0xff, kWorkspaceBytes);
    const Elements x(precision_, images), f(precision_, filters), y(precision_, outputs);
    const Window& window = shape_.window;
    if (pass_ == ConvolutionPass::kForward) {
      Write(y, shape_.rows * shape_.output().elements(),
            [&](int64_t from, int64_t filter, int64_t to, std::vector<double>& sums) {
              sums[to] += x[from] * f[filter];
            });
    } else if (pass_ == ConvolutionPass::kData) {
      Write(x, shape_.rows * shape_.in.elements(),
            [&](int64_t from, int64_t filter, int64_t to, std::vector<double>& sums) {
              sums[from] += f[filter] * y[to];
            });
    } else {
      Write(f, shape_.out * window.height.size * window.width.size * shape_.in.channels,
            [&](int64_t from, int64_t filter, int64_t to, std::vector<double>& sums) {
              sums[filter] += x[from] * y[to];
            });
    }
    return absl::OkStatus();
  }

 private:
  // `add` adds one product to the sums, which become the `count` elements of `out`.
  template <typename Add>
  void Write(const Elements& out, int64_t count, const Add& add) {
    std::vector<double> sums(count);
    ForEachProduct(shape_, [&](int64_t from, int64_t filter, int64_t to) { add(from, filter, to, sums); });
    for (int64_t i = 0; i < count; ++i) out.Set(i, sums[i]);
  }

  const ConvolutionPass pass_;
  const ConvolutionShape shape_;
  const Precision precision_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(cublasLtHandle_t, const MatmulShape& shape,
                                                       Precision precision) {
  return std::make_unique<HostMatmul>(shape, precision);
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> ConvolutionPlan::Create(const CudnnTarget&,
                                                                         ConvolutionPass pass,
                                                                         const ConvolutionShape& shape,
                                                                         Precision precision) {
  return std::make_unique<HostConvolution>(pass, shape, precision);
}

}  // namespace tethys::cuda
