// One macro per NVIDIA API. Each returns an error of the API as an absl::Status that names the failed call
// and the error's meaning. Used by libtethys_cuda.so only. Thread-safe.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_CUDA_STATUS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_CUDA_STATUS_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "runtime/base/status.h"

namespace tethys::cuda {

// `call` is the source text of the call; the message shows the name of its function.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);
absl::Status CublasStatus(cublasStatus_t error, absl::string_view call);
absl::Status CudnnStatus(cudnnStatus_t error, absl::string_view call);

}  // namespace tethys::cuda

#define TETHYS_RETURN_IF_CUDA_ERROR(call) TETHYS_RETURN_IF_ERROR(::tethys::cuda::CudaStatus((call), #call))
#define TETHYS_RETURN_IF_CUBLAS_ERROR(call) \
  TETHYS_RETURN_IF_ERROR(::tethys::cuda::CublasStatus((call), #call))
#define TETHYS_RETURN_IF_CUDNN_ERROR(call) TETHYS_RETURN_IF_ERROR(::tethys::cuda::CudnnStatus((call), #call))

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_CUDA_STATUS_H_
