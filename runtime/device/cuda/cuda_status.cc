#include "runtime/device/cuda/cuda_status.h"

namespace tethys::cuda {
namespace {

// Returns "cudaMalloc" for "cudaMalloc(&data, bytes)".
absl::string_view FunctionName(absl::string_view call) { return call.substr(0, call.find('(')); }

absl::Status ApiError(absl::StatusCode code, absl::string_view call, absl::string_view meaning) {
  return absl::Status(code, absl::StrCat(FunctionName(call), " failed: ", meaning));
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // Clears the error; otherwise the next launch would report it as its own.
  const auto code =
      error == cudaErrorMemoryAllocation ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal;
  return ApiError(code, call, absl::StrCat(cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

absl::Status CublasStatus(cublasStatus_t error, absl::string_view call) {
  if (error == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const auto code =
      error == CUBLAS_STATUS_NOT_SUPPORTED ? absl::StatusCode::kUnimplemented : absl::StatusCode::kInternal;
  return ApiError(code, call, cublasLtGetStatusString(error));
}

absl::Status CudnnStatus(cudnnStatus_t error, absl::string_view call) {
  if (error == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  // The codes from 3000 to 3999 mean that a combination is not supported.
  const auto code = error >= CUDNN_STATUS_NOT_SUPPORTED && error < CUDNN_STATUS_INTERNAL_ERROR
                        ? absl::StatusCode::kUnimplemented
                        : absl::StatusCode::kInternal;
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof(detail));
  return ApiError(code, call, absl::StrCat(cudnnGetErrorString(error), ". ", detail));
}

}  // namespace tethys::cuda
