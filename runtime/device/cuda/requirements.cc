#include "runtime/device/cuda/requirements.h"

#include <nccl.h>
#include <unistd.h>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"

namespace tethys::cuda {
namespace {

// The lowest compute capability: 8 (Ampere), the first with TF32 and bfloat16.
constexpr int kLeastMajor = 8;
constexpr size_t kLeastCudnn = 90000;  // The oldest cuDNN: version 9.0.0.
constexpr int kLeastNccl = 22700;      // The oldest NCCL: version 2.27.0, the first for CUDA 13.

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "this host";
}

// Formats 13000 as "13.0".
std::string CudaVersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }
// Formats 22809 as "2.28.9".
std::string NcclVersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}
std::string CudnnVersionText(size_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::Status CheckDriver() {
  int driver = 0, runtime = 0;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaDriverGetVersion(&driver));
  TETHYS_RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        HostName(), " has no NVIDIA driver (libcuda.so.1): install it, or run on a host that has one"));
  }
  if (driver / 1000 < runtime / 1000) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the NVIDIA driver of ", HostName(), " supports CUDA up to ", CudaVersionText(driver),
        ", but this build is for ", CudaVersionText(runtime), ": install a newer driver (580 or later)"));
  }
  return absl::OkStatus();
}

absl::Status CheckIndex(int index) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorSystemNotReady) {
    cudaGetLastError();
    return absl::FailedPreconditionError(absl::StrCat(
        "the GPUs of ", HostName(),
        " are not ready: machines whose GPUs are joined by NVSwitch need NVIDIA's Fabric Manager "
        "(systemctl start nvidia-fabricmanager)"));
  }
  if (counted != cudaErrorNoDevice) TETHYS_RETURN_IF_ERROR(CudaStatus(counted, "cudaGetDeviceCount()"));
  if (counted == cudaErrorNoDevice || count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(HostName(),
                     " has an NVIDIA driver, but no GPU that this process may use (nvidia-smi lists "
                     "all GPUs, CUDA_VISIBLE_DEVICES hides some)"));
  }
  if (index >= 0 && index < count) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("GPU ", index, " was requested, but ", HostName(), " has ", count,
                                          " GPU(s), counted from 0: place at most ", count,
                                          " workers there (slots in the host file)"));
}

absl::Status CheckCapability(int index, const cudaDeviceProp& properties) {
  if (properties.major < kLeastMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPU ", index, " of ", HostName(), ", ", properties.name, ", has compute capability ",
                     properties.major, ".", properties.minor, "; 8.0 (Ampere) or later is needed"));
  }
  if (CheckKernelImage() == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  return absl::FailedPreconditionError(
      absl::StrCat("libtethys_cuda.so contains no code for GPU ", index, " of ", HostName(), ", ",
                   properties.name, " (compute capability ", properties.major, ".", properties.minor,
                   "): build with -DTETHYS_CUDA_ARCHITECTURES=", properties.major, properties.minor));
}

absl::Status CheckCudnn() {
  const size_t version = cudnnGetVersion();
  if (version >= kLeastCudnn) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cuDNN ", CudnnVersionText(version), " was found on ",
                                                    HostName(), "; 9.0 or later is needed"));
}

absl::Status CheckNccl() {
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess && version >= kLeastNccl) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("NCCL ", NcclVersionText(version), " was found on ",
                                                    HostName(), "; ", NcclVersionText(kLeastNccl),
                                                    " or later is needed"));
}

}  // namespace

absl::StatusOr<Gpu> TakeGpu(int index) {
  TETHYS_RETURN_IF_ERROR(CheckDriver());
  TETHYS_RETURN_IF_ERROR(CheckIndex(index));
  TETHYS_RETURN_IF_CUDA_ERROR(cudaSetDevice(index));
  cudaDeviceProp properties;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, index));
  TETHYS_RETURN_IF_ERROR(CheckCapability(index, properties));
  TETHYS_RETURN_IF_ERROR(CheckCudnn());
  TETHYS_RETURN_IF_ERROR(CheckNccl());
  int runtime = 0;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&runtime));
  return Gpu{
      .uuid = std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes)),
      .description = absl::StrCat(properties.name, " (GPU ", index, "), CUDA ", CudaVersionText(runtime),
                                  ", cuDNN ", CudnnVersionText(cudnnGetVersion()))};
}

}  // namespace tethys::cuda
