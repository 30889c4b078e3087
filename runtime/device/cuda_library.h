// The interface of libtethys_cuda.so: one C function that returns the table CudaLibrary
// (runtime/base/own_library.h). Included only by the program's loader (cuda_loader.h) and by the library
// itself (cuda/library.cc).
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_LIBRARY_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_LIBRARY_H_

#include <memory>

#include "runtime/device/device.h"

namespace tethys {

struct CudaDeviceOptions {
  int index = 0;      // The index of the GPU among the GPUs that the process can use.
  bool bf16 = false;  // True: products and convolutions compute in bfloat16; everything else stays float32.
  bool tf32 = false;  // True: float32 products and convolutions may round their factors to TF32.
};

struct CudaLibrary {
  const char* fingerprint;  // The library's own fingerprint; the first member of the table in every build.
  absl::StatusOr<std::unique_ptr<Device>> (*create_device)(const CudaDeviceOptions& options);
};

// The name of the C function that returns the table.
inline constexpr char kCudaLibraryEntry[] = "tethys_cuda_library";

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_LIBRARY_H_
