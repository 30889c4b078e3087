// The CUDA device: one GPU of one rank. Calls enqueue work on streams and return at once.
#include <cmath>
#include <utility>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/graph.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/memory_pool.h"
#include "runtime/device/cuda/nccl_communicator.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/profiler.h"
#include "runtime/device/cuda/requirements.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/input_scaling.h"

namespace tethys::cuda {
namespace {

const char* PrecisionText(Precision precision) {
  return precision == Precision::kBf16 ? "bf16" : precision == Precision::kTf32 ? "fp32 by tf32" : "fp32";
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const Gpu& gpu, Precision precision) : gpu_(gpu), memory_(std::make_shared<MemoryPool>()) {
    libraries_.memory = memory_.get();
    libraries_.workspace = &workspace_;
    libraries_.precision = precision;
    if (precision == Precision::kBf16) libraries_.activations = ElementType::kBfloat16;
  }
  ~CudaDevice() override {
    if (libraries_.cudnn != nullptr) cudnnDestroy(libraries_.cudnn);
    if (libraries_.cublas != nullptr) cublasLtDestroy(libraries_.cublas);
  }

  absl::Status Initialize() {
    TETHYS_RETURN_IF_CUBLAS_ERROR(cublasLtCreate(&libraries_.cublas));
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnCreate(&libraries_.cudnn));
    int device = 0, reads_pageable = 0;
    TETHYS_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
    TETHYS_RETURN_IF_CUDA_ERROR(
        cudaDeviceGetAttribute(&reads_pageable, cudaDevAttrPageableMemoryAccess, device));
    reads_pageable_memory_ = reads_pageable != 0;
    return absl::OkStatus();
  }

  std::string Describe() const override {
    return absl::StrCat("cuda, ", gpu_.description, ", ", PrecisionText(libraries_.precision));
  }
  bool reads_host_memory() const override { return false; }
  ElementType activation_type() const override { return libraries_.activations; }
  absl::StatusOr<absl::optional<int64_t>> FreeMemory() override {
    size_t free = 0, total = 0;
    TETHYS_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free, &total));
    return absl::optional<int64_t>(static_cast<int64_t>(free));
  }
  void ReleaseUnused() override { memory_->FreeUnused(); }
  absl::StatusOr<absl::optional<Nanoseconds>> LongestPause(Stream& stream, Nanoseconds time) override {
    uint64_t longest = 0;
    TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> result,
                            Allocate(sizeof(longest), MemoryKind::kDevice));
    TETHYS_RETURN_IF_CUDA_ERROR(
        MeasurePause(Handle(stream), static_cast<uint64_t>(time), static_cast<uint64_t*>(result->data())));
    TETHYS_RETURN_IF_ERROR(CopyToHost(stream, &longest, result->data(), sizeof(longest)));
    TETHYS_RETURN_IF_ERROR(stream.Synchronize());
    return absl::optional<Nanoseconds>(static_cast<Nanoseconds>(longest));
  }

  std::string identity() const override { return gpu_.uuid; }
  absl::StatusOr<std::string> NewGroupId() override { return NewNcclGroupId(); }
  absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinGroup(const StreamGroup& group) override {
    return JoinNcclGroup(group);
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind) override {
    return memory_->Allocate(bytes, kind);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return cuda::CreateStream(); }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override { return cuda::CreateEvent(); }
  absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent() override { return cuda::CreateTimedEvent(); }

  // CUDA stages pageable memory before cudaMemcpyAsync returns. If the GPU reads pageable memory directly,
  // CUDA does not stage it, so CopyToDevice waits for the stream. A copy to pageable memory is complete when
  // cudaMemcpyAsync returns. Pinned memory must not change until the stream has reached the copy.
  absl::Status CopyToDevice(Stream& stream, void* device, const void* host, int64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    TETHYS_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, Handle(stream)));
    if (!reads_pageable_memory_) return absl::OkStatus();
    cudaPointerAttributes attributes = {};
    TETHYS_RETURN_IF_CUDA_ERROR(cudaPointerGetAttributes(&attributes, host));
    if (attributes.type != cudaMemoryTypeUnregistered) return absl::OkStatus();
    TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(Handle(stream)));
    return absl::OkStatus();
  }
  absl::Status CopyToHost(Stream& stream, void* host, const void* device, int64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    TETHYS_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, Handle(stream)));
    return absl::OkStatus();
  }
  absl::Status CopyOnDevice(Stream& stream, void* to, const void* from, int64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    TETHYS_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, Handle(stream)));
    return absl::OkStatus();
  }

  absl::Status CopyColumns(Stream& stream, const ColumnCopy& copy) override {
    if (copy.rows == 0 || copy.columns == 0) return absl::OkStatus();
    TETHYS_RETURN_IF_CUDA_ERROR(cudaMemcpy2DAsync(copy.to, copy.to_width, copy.from, copy.from_width,
                                                  copy.columns, copy.rows, cudaMemcpyDeviceToDevice,
                                                  Handle(stream)));
    return absl::OkStatus();
  }

  absl::Status RoundToBfloat16(Stream& stream, const float* in, Bfloat16* out, int64_t count) override {
    TETHYS_RETURN_IF_CUDA_ERROR(ToBfloat16(Handle(stream), count, in, reinterpret_cast<__nv_bfloat16*>(out)));
    return absl::OkStatus();
  }
  absl::Status WidenBfloat16(Stream& stream, const Bfloat16* in, float* out, int64_t count) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        FromBfloat16(Handle(stream), count, reinterpret_cast<const __nv_bfloat16*>(in), out));
    return absl::OkStatus();
  }

  void BeginRange(const char* name, int64_t number) override { cuda::BeginRange(name, number); }
  void EndRange() override { cuda::EndRange(); }

  bool captures() const override { return true; }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                 absl::FunctionRef<absl::Status()> work) override {
    return cuda::Capture(stream, work);
  }

#define TETHYS_DEFINE_CREATE(Shape)                    \
  Created<Shape> Create(const Shape& shape) override { \
    TETHYS_RETURN_IF_ERROR(CheckShape(shape));         \
    return cuda::Create(shape, libraries_);            \
  }
  TETHYS_PRIMITIVES(TETHYS_DEFINE_CREATE)
#undef TETHYS_DEFINE_CREATE

  absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, const InputScaling& scaling) override {
    TETHYS_RETURN_IF_ERROR(CheckScaling(count, scaling));
    return cuda::CreateInputConversion(libraries_, count, scaling);
  }

  absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(const UpdateRule& rule,
                                                                std::vector<UpdateRegion> regions) override {
    TETHYS_RETURN_IF_ERROR(CheckRule(rule));
    return cuda::CreateUpdate(libraries_, rule, regions);
  }

  absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(double limit,
                                                            std::vector<UpdateRegion> regions) override {
    if (!(limit > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradients cannot be clipped to a norm of ", limit, "; the norm must be above 0"));
    }
    return cuda::CreateClip(libraries_, limit, regions);
  }

 private:
  const Gpu gpu_;
  const std::shared_ptr<MemoryPool> memory_;
  SharedWorkspace workspace_{*memory_};
  Libraries libraries_;
  // True if the GPU reads the host's pageable memory without a copy (GH200).
  bool reads_pageable_memory_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const CudaDeviceOptions& options) {
  TETHYS_ASSIGN_OR_RETURN(const Gpu gpu, TakeGpu(options.index));
  const Precision precision = options.bf16   ? Precision::kBf16
                              : options.tf32 ? Precision::kTf32
                                             : Precision::kFp32;
  auto device = std::make_unique<CudaDevice>(gpu, precision);
  TETHYS_RETURN_IF_ERROR(device->Initialize());
  return device;
}

}  // namespace tethys::cuda
