#include "runtime/device/cuda/stream.h"

#include <cmath>

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

absl::Status WaitFor(cudaEvent_t event, Stream& stream) {
  TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(Handle(stream), event, cudaEventWaitDefault));
  return absl::OkStatus();
}

absl::StatusOr<bool> HasHappened(cudaEvent_t event) {
  const cudaError_t state = cudaEventQuery(event);
  if (state == cudaErrorNotReady) {
    // Clears cudaErrorNotReady, which is no failure; otherwise the next launch would report it.
    cudaGetLastError();
    return false;
  }
  TETHYS_RETURN_IF_ERROR(CudaStatus(state, "cudaEventQuery()"));
  return true;
}

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}
  ~CudaEvent() override { cudaEventDestroy(event_); }
  absl::Status Record(Stream& stream) override {
    TETHYS_RETURN_IF_CUDA_ERROR(cudaEventRecord(event_, Handle(stream)));
    return absl::OkStatus();
  }
  absl::Status Wait(Stream& stream) const override { return WaitFor(event_, stream); }
  absl::StatusOr<bool> Happened() const override { return HasHappened(event_); }

 private:
  const cudaEvent_t event_;
};

class CudaTimedEvent final : public TimedEvent {
 public:
  explicit CudaTimedEvent(cudaEvent_t event) : event_(event) {}
  ~CudaTimedEvent() override { cudaEventDestroy(event_); }

  // Without cudaEventRecordExternal, an event recorded during a capture would only order work within the
  // graph.
  absl::Status Record(Stream& stream) override {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamIsCapturing(Handle(stream), &capture));
    const unsigned flags =
        capture == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
    TETHYS_RETURN_IF_CUDA_ERROR(cudaEventRecordWithFlags(event_, Handle(stream), flags));
    return absl::OkStatus();
  }
  absl::Status Wait(Stream& stream) const override { return WaitFor(event_, stream); }
  absl::StatusOr<bool> Happened() const override { return HasHappened(event_); }
  absl::StatusOr<Nanoseconds> Since(const TimedEvent& earlier) const override {
    float milliseconds = 0;
    const cudaEvent_t begin = static_cast<const CudaTimedEvent&>(earlier).event_;
    TETHYS_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin, event_));
    return static_cast<Nanoseconds>(std::llround(double{milliseconds} * kMillisecond));
  }

 private:
  const cudaEvent_t event_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> CreateStream() {
  cudaStream_t stream = nullptr;
  // This stream and the default stream do not wait for each other. So code that enqueues work on the default
  // stream must itself wait for that work.
  TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return std::make_unique<CudaStream>(stream);
}

absl::StatusOr<std::unique_ptr<Event>> CreateEvent() {
  cudaEvent_t event = nullptr;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return std::make_unique<CudaEvent>(event);
}

absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent() {
  cudaEvent_t event = nullptr;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return std::make_unique<CudaTimedEvent>(event);
}

cudaStream_t Handle(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace tethys::cuda
