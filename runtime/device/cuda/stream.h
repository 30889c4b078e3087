// Streams and events of CUDA. Contract: runtime/device/device.h. Any thread may call Happened on an event;
// all other calls belong to the device's thread.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_STREAM_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "runtime/device/device.h"

namespace tethys::cuda {

absl::StatusOr<std::unique_ptr<Stream>> CreateStream();
absl::StatusOr<std::unique_ptr<Event>> CreateEvent();
absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent();

// The handle of a stream that CreateStream returned.
cudaStream_t Handle(Stream& stream);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_STREAM_H_
