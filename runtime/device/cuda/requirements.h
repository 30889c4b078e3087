// Checks the requirements of a CUDA device: driver, GPU and libraries. Each error says what to do. Called by
// the thread that will use the device.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_REQUIREMENTS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_REQUIREMENTS_H_

#include <memory>
#include <string>

#include "runtime/device/cuda_library.h"

namespace tethys::cuda {

struct Gpu {
  std::string uuid;         // The GPU's UUID in binary form, 16 bytes.
  std::string description;  // "NVIDIA H200 (GPU 0), CUDA 13.0, cuDNN 9.19.0"
};

// Checks GPU `index` and makes it the calling thread's current GPU.
absl::StatusOr<Gpu> TakeGpu(int index);

// Creates the CUDA device. Defined in cuda_device.cc.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const CudaDeviceOptions& options);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_REQUIREMENTS_H_
