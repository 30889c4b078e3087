// Tests the requirements of a CUDA device with a fake CUDA runtime, which reports the machine that the test
// describes.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/requirements.h"

namespace {

struct Machine {
  int driver = 13000;
  cudaError_t counted = cudaSuccess;
  int capability = 9;
  bool has_code = true;
  size_t cudnn = 91900;
  int nccl = 22809;
} machine;

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t) { return ""; }
const char* cudnnGetErrorString(cudnnStatus_t) { return ""; }
void cudnnGetLastErrorString(char* text, size_t) { *text = '\0'; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTest"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine.driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return machine.counted;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "NVIDIA Test");
  properties->major = machine.capability;
  return cudaSuccess;
}
size_t cudnnGetVersion() { return machine.cudnn; }
ncclResult_t ncclGetVersion(int* version) {
  *version = machine.nccl;
  return ncclSuccess;
}

namespace tethys::cuda {

cudaError_t CheckKernelImage() { return machine.has_code ? cudaSuccess : cudaErrorNoKernelImageForDevice; }

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Refusal(const Machine& of) {
  machine = of;
  return std::string(TakeGpu(0).status().message());
}

TEST(CudaRequirements, MachineThatMeetsAllRequirements_IsDescribed) {
  machine = {};
  EXPECT_EQ(TakeGpu(0).value().description, "NVIDIA Test (GPU 0), CUDA 13.0, cuDNN 9.19.0");
}

TEST(CudaRequirements, MissingParts_AreNamedWithTheirRemedies) {
  EXPECT_THAT(Refusal({.driver = 0}), HasSubstr("no NVIDIA driver"));
  EXPECT_THAT(Refusal({.driver = 12080}), HasSubstr("CUDA up to 12.8"));
  EXPECT_THAT(Refusal({.counted = cudaErrorNoDevice}), HasSubstr("no GPU"));
  EXPECT_THAT(Refusal({.capability = 7}), HasSubstr("8.0 (Ampere) or later is needed"));
  EXPECT_THAT(Refusal({.has_code = false}), HasSubstr("TETHYS_CUDA_ARCHITECTURES=90"));
  EXPECT_THAT(Refusal({.cudnn = 8900}), HasSubstr("9.0 or later is needed"));
}

TEST(CudaRequirements, FabricManagerDown_IsNamed) {
  EXPECT_THAT(Refusal({.counted = cudaErrorSystemNotReady}),
              AllOf(HasSubstr("not ready"), HasSubstr("Fabric Manager")));
}

TEST(CudaRequirements, OldNccl_IsRefusedWithItsVersion) {
  EXPECT_THAT(Refusal({.nccl = 22607}),
              AllOf(HasSubstr("NCCL 2.26.7"), HasSubstr("2.27.0 or later is needed")));
}

}  // namespace
}  // namespace tethys::cuda
