// What libtethys_cuda.so offers: one C function that answers this table. The command's loader (cuda_loader.h)
// and the library (cuda/library.cc) both compile it; nothing else needs it.
//
// Behind the table are C++ types, so both sides must be of one build. Each carries a fingerprint, made by the
// build from the contract's headers, the library's sources and the compiler; the loader compares before it
// uses more.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_LIBRARY_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_LIBRARY_H_

#include <memory>

#include "runtime/device/device.h"

namespace tethys {

struct CudaDeviceOptions {
  int index = 0;      // Of the GPU, as the driver counts those that the process may see.
  bool bf16 = false;  // Products and convolutions in bfloat16; everything else stays float32.
  bool tf32 = false;  // Float32 products and convolutions may round their factors to TF32.
};

struct CudaLibrary {
  const char* fingerprint;  // First, in every build.
  absl::StatusOr<std::unique_ptr<Device>> (*create_device)(const CudaDeviceOptions& options);
};

// The name and type of the C function.
inline constexpr char kCudaLibraryEntry[] = "tethys_cuda_library";
using CudaLibraryEntry = const CudaLibrary* (*)();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_LIBRARY_H_
