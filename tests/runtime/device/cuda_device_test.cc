// Tests that the CUDA device keeps the contract of Device. Without a GPU the tests are skipped and say what
// is missing.
#include <cstdio>
#include <filesystem>

#include "runtime/device/cuda_loader.h"
#include "tests/runtime/device/bfloat16_conformance.h"
#include "tests/runtime/device/graph_conformance.h"
#include "tests/runtime/device/image_conformance.h"
#include "tests/runtime/device/stream_conformance.h"

namespace tethys {
namespace {

// In a bundle made by `tests/gpu.sh pack`, the CUDA library is in the folder of this test.
absl::StatusOr<std::unique_ptr<Device>> CreateGpu(const CudaDeviceOptions& options) {
  const std::string beside = ProgramFolder();
  const bool bundled = std::filesystem::exists(beside + "/" + kCudaLibraryName);
  return CreateCudaDevice({.folder = bundled ? beside : TETHYS_CUDA_FOLDER}, options);
}
absl::StatusOr<std::unique_ptr<Device>> FirstGpu() { return CreateGpu({}); }

// The test may be skipped for the listed reasons only; any other error is a failure.
TEST(CudaDevice, IsAvailableOrSkippedWithTheReason) {
  const auto device = FirstGpu();
  if (!device.ok()) {
    const std::string problem = StatusText(device.status());
    ASSERT_THAT(problem,
                testing::AnyOf(testing::HasSubstr("computes on CPUs only"),
                               testing::HasSubstr("no NVIDIA driver"), testing::HasSubstr("no GPU")));
    GTEST_SKIP() << problem;
  }
  EXPECT_FALSE((*device)->reads_host_memory());
  std::printf("%s\n", (*device)->Describe().c_str());
}

TEST(CudaDevice, IndexBeyondTheLastGpuIsRefused) {
  if (!FirstGpu().ok()) GTEST_SKIP() << StatusText(FirstGpu().status());
  const absl::Status refused = CreateGpu({.index = 4096}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(StatusText(refused), testing::HasSubstr("GPU 4096"));
}

TEST(CudaDevice, TooLargeAllocationSuggestsSmallerBatch) {
  const auto device = FirstGpu();
  if (!device.ok()) GTEST_SKIP() << StatusText(device.status());
  const absl::Status refused = (*device)->Allocate(int64_t{1} << 40, MemoryKind::kDevice).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(refused), testing::HasSubstr("smaller batch"));
}

// Empty without a GPU; CudaDevice.IsAvailableOrSkippedWithTheReason prints the reason.
std::vector<DeviceCase> Gpus() {
  if (!FirstGpu().ok()) return {};
  return {{FirstGpu, kFloat32},
          {[] { return CreateGpu({.tf32 = true}); }, kTf32},
          {[] { return CreateGpu({.bf16 = true}); }, kBfloat16}};
}
std::string PrecisionName(const testing::TestParamInfo<DeviceCase>& info) {
  const int bits = info.param.arithmetic.factor_bits;
  return bits == 24 ? "Float32" : bits == 11 ? "Tf32" : "Bfloat16";
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bfloat16Conformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ImageConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GraphConformance);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, testing::ValuesIn(Gpus()), PrecisionName);
INSTANTIATE_TEST_SUITE_P(Cuda, Bfloat16Conformance, testing::ValuesIn(Gpus()), PrecisionName);
INSTANTIATE_TEST_SUITE_P(Cuda, ImageConformance, testing::ValuesIn(Gpus()), PrecisionName);
INSTANTIATE_TEST_SUITE_P(Cuda, GraphConformance, testing::ValuesIn(Gpus()), PrecisionName);

}  // namespace
}  // namespace tethys
