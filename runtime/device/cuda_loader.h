// Creates CUDA devices by opening libtethys_cuda.so, so that the tethys command needs no CUDA library to run.
// Called once by a worker with `device { kind: CUDA }`. Blocks while NVIDIA's libraries load (seconds, when
// they are not cached).
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_LOADER_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_LOADER_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/own_library.h"
#include "runtime/device/cuda_library.h"

namespace tethys {

inline constexpr char kCudaLibraryName[] = "libtethys_cuda.so";

struct CudaLoaderOptions {
  // The folder that holds libtethys_cuda.so.
  std::string folder;
  // Folders that are searched for NVIDIA's libraries before the folders of the system. A folder contains the
  // libraries themselves, or the folders nvidia/*/lib that PyTorch's wheels install.
  std::vector<std::string> library_path = {};
};

// Creates a CUDA device. Once opened, libtethys_cuda.so stays loaded for the life of the process. Errors say
// what is missing and what to install: FailedPrecondition (library missing or of another build, driver
// missing or too old, GPU too old), NotFound (no such GPU).
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaLoaderOptions& loader,
                                                         const CudaDeviceOptions& device);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_LOADER_H_
