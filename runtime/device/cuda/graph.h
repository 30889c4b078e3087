// Captures stream work as a CUDA graph. Contract: Device::Capture. Used by the device's thread.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_GRAPH_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_GRAPH_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "runtime/device/device.h"

namespace tethys::cuda {

absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream, absl::FunctionRef<absl::Status()> work);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_GRAPH_H_
