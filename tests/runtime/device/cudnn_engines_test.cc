// Checks that cuDNN has reproducible and sufficiently precise engines for the convolutions of networks. cuDNN
// can compile for a GPU given by a descriptor, so no GPU is needed; only cuda_device_test tests the engines'
// results.
#include <cudnn.h>

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/device/cuda/cudnn_graph.h"
#include "tests/runtime/device/network_convolutions.h"

namespace tethys::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Fields of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. Sizes are in bytes.
struct Gpu {
  const char* name;
  int capability, processors, shared_memory_per_block, l2_cache, clock_khz, memory_clock_khz;
  int64_t memory;
};
constexpr Gpu kAmpere = {"A100-SXM4-40GB", 800, 108, 166912, 41943040, 1410000, 1215000, 42297786368};
constexpr Gpu kHopper = {"H200", 900, 132, 232448, 62914560, 1980000, 3201000, 150110011392};

std::string Json(const Gpu& gpu) {
  return absl::StrCat(
      R"({"version": 1, "cudaDeviceId": 0, "pciDeviceId": 0, "isTccDriver": 0, "deviceName": ")", gpu.name,
      R"(", "deviceVer": )", gpu.capability, R"(, "driverVer": 13000, "warpSize": 32,
      "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024,
      "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
      "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024, "supportCoopLaunch": 1,
      "maxSharedMemoryPerBlockOptin": )",
      gpu.shared_memory_per_block, R"(, "multiProcessorCount": )", gpu.processors, R"(, "l2CacheSize": )",
      gpu.l2_cache, R"(, "smClockRateKHz": )", gpu.clock_khz, R"(, "memClockRateKHz": )",
      gpu.memory_clock_khz, R"(, "totalGlobalMem": )", gpu.memory, "}");
}

class CudnnEngines : public testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < 90800)
      GTEST_SKIP() << "cuDNN before 9.8 cannot compile for a GPU that is not present";
    const std::string json = Json(GetParam());
    ASSERT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu_), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnBackendSetAttribute(gpu_, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                       static_cast<int64_t>(json.size() + 1), json.c_str()),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnBackendFinalize(gpu_), CUDNN_STATUS_SUCCESS);
  }
  ~CudnnEngines() override {
    if (gpu_ != nullptr) cudnnBackendDestroyDescriptor(gpu_);
  }
  auto Compile(ConvolutionPass pass, const ConvolutionShape& shape, Precision precision) {
    return CreateCudnnPlan({.gpu = gpu_}, pass, shape, precision);
  }
  void ExpectEngines(const ConvolutionShape& shape);

  cudnnBackendDescriptor_t gpu_ = nullptr;
};

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::kForward, ConvolutionPass::kData,
                                       ConvolutionPass::kFilters};

void CudnnEngines::ExpectEngines(const ConvolutionShape& shape) {
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    for (const ConvolutionPass pass : kPasses) {
      const absl::Status compiled = Compile(pass, shape, precision).status();
      EXPECT_TRUE(compiled.ok()) << "precision " << static_cast<int>(precision) << ", "
                                 << StatusText(compiled);
    }
  }
}

TEST_P(CudnnEngines, EnginesExistForAllShapesOfTheConformanceTests) {
  for (const ConvolutionShape& shape : ConvolutionShapes()) ExpectEngines(shape);
  for (uint64_t key = 0; key < 20; ++key) ExpectEngines(RandomConvolutionShape(key));
}

TEST_P(CudnnEngines, EnginesExistForLenetWithAllBatchSizes) {
  for (const int64_t rows : {1, 32, 100, 128, 1024}) {
    for (const auto& [shape, count] : NetworkConvolutions("lenet", rows)) ExpectEngines(shape);
  }
}

TEST_P(CudnnEngines, EnginesExistForResnet50) {
  for (const auto& [shape, count] : NetworkConvolutions("resnet50", 64)) ExpectEngines(shape);
}

TEST_P(CudnnEngines, SameEnginesAreChosenEachTimeForAConvolution) {
  const ConvolutionShape shape = ConvolutionShapes()[1];
  for (const ConvolutionPass pass : kPasses) {
    const auto once = Compile(pass, shape, Precision::kBf16).value();
    const auto again = Compile(pass, shape, Precision::kBf16).value();
    EXPECT_EQ(once->Describe(), again->Describe());
    EXPECT_EQ(once->workspace_bytes(), again->workspace_bytes());
  }
}

TEST_P(CudnnEngines, ErrorForAMissingEngineNamesTheConvolution) {
  const ConvolutionShape shape = {
      .rows = int64_t{1} << 31, .in = {9, 8, 7}, .out = 5, .window = SquareWindow(3, 1, 0, 0)};
  EXPECT_THAT(StatusText(Compile(ConvolutionPass::kData, shape, Precision::kFp32).status()),
              AllOf(HasSubstr("data gradient of a convolution of 2147483648 images of 9 x 8 x 7"),
                    HasSubstr("5 filters of 3 x 3")));
}

INSTANTIATE_TEST_SUITE_P(Ampere, CudnnEngines, testing::Values(kAmpere));
INSTANTIATE_TEST_SUITE_P(Hopper, CudnnEngines, testing::Values(kHopper));

}  // namespace
}  // namespace tethys::cuda
