// The one function that libtethys_cuda.so exports (exports.map).
#include "runtime/device/cuda/requirements.h"
#include "runtime/device/cuda_fingerprint.h"
#include "runtime/device/cuda_library.h"

extern "C" __attribute__((visibility("default"))) const void* tethys_cuda_library() {
  static constexpr tethys::CudaLibrary kLibrary = {TETHYS_CUDA_FINGERPRINT, tethys::cuda::CreateDevice};
  return &kLibrary;
}
