// Opens a GPU for tests and benchmarks. It uses the CUDA library beside the program, where tests/gpu/pack.sh
// puts it, or otherwise the build's CUDA library. Targets that include this header must define
// TETHYS_CUDA_FOLDER, the folder of the build's library.
#ifndef TETHYS_TESTS_TESTING_GPU_H_
#define TETHYS_TESTS_TESTING_GPU_H_

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/device/cuda_loader.h"

namespace tethys::testing {

inline absl::StatusOr<std::unique_ptr<Device>> CreateGpu(const CudaDeviceOptions& options = {}) {
  const std::string beside = ProgramFolder();
  const bool unpacked = std::filesystem::exists(beside + "/" + kCudaLibraryName);
  return CreateCudaDevice({.folder = unpacked ? beside : TETHYS_CUDA_FOLDER}, options);
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_GPU_H_
