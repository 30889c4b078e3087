#include "runtime/device/cuda/stream.h"

#include "runtime/device/cuda/cuda_status.h"

namespace tethys::cuda {
namespace {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  absl::Status Synchronize() override {
    TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    return absl::OkStatus();
  }
  cudaStream_t handle() const { return stream_; }

 private:
  const cudaStream_t stream_;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}
  ~CudaEvent() override { cudaEventDestroy(event_); }
  absl::Status Record(Stream& stream) override {
    TETHYS_RETURN_IF_CUDA_ERROR(cudaEventRecord(event_, Handle(stream)));
    return absl::OkStatus();
  }
  absl::Status Wait(Stream& stream) const override {
    TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(Handle(stream), event_, cudaEventWaitDefault));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Happened() const override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // No error: it must not surface at the next launch.
      return false;
    }
    TETHYS_RETURN_IF_ERROR(CudaStatus(state, "cudaEventQuery()"));
    return true;
  }

 private:
  const cudaEvent_t event_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> CreateStream() {
  cudaStream_t stream = nullptr;
  // Not ordered with the default stream, on which buffers are zeroed (and waited for).
  TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return std::make_unique<CudaStream>(stream);
}

absl::StatusOr<std::unique_ptr<Event>> CreateEvent() {
  cudaEvent_t event = nullptr;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return std::make_unique<CudaEvent>(event);
}

cudaStream_t Handle(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace tethys::cuda
