// Makes CUDA devices by opening libtethys_cuda.so, so that the command needs no CUDA library to run. Called
// once by a worker with `device { kind: CUDA }`. Blocks while NVIDIA's libraries load (seconds, when they are
// not cached).
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_LOADER_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_LOADER_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda_library.h"

namespace tethys {

inline constexpr char kCudaLibraryName[] = "libtethys_cuda.so";

struct CudaLoaderOptions {
  // Where libtethys_cuda.so lies.
  std::string folder;
  // Where NVIDIA's libraries lie, searched before the system's places: a folder of them, or one that holds
  // nvidia/*/lib, as the wheels of PyTorch do.
  std::vector<std::string> library_path = {};
};

// The folder of the running program; of a bundle, its lib/.
std::string ProgramFolder();

// Once opened, the library stays for the life of the process. Errors say what is missing and what to install:
// FailedPrecondition (no library, of another build, no driver or one too old, a GPU too old), NotFound (no
// such GPU).
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaLoaderOptions& loader,
                                                         const CudaDeviceOptions& device);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_LOADER_H_
