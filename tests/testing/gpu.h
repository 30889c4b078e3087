// Opens a GPU for tests and benchmarks. The CUDA library is the one beside the program if there is one (as
// tests/gpu/pack.sh packs them), else that of the build. Targets that include this header define
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
