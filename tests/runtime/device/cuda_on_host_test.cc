// Tests all code of the CUDA back end, kernels included, against the contract of Device without a GPU.
// Kernels run on the host (cuda_on_host.h), and plain loops replace NVIDIA's libraries (nvidia_on_host.cc).
#include "tests/testing/cuda_on_host.h"

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/cudnn_graph.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/requirements.h"
#include "tests/runtime/device/bfloat16_conformance.h"
#include "tests/runtime/device/image_conformance.h"
#include "tests/testing/cuda_runtime_on_host.h"

namespace tethys {
namespace {

DeviceCase OnHost(const CudaDeviceOptions& options, const Arithmetic& arithmetic) {
  return {[options] { return cuda::CreateDevice(options); }, arithmetic, /*most_rows=*/7};
}
const DeviceCase kCases[] = {OnHost({}, kFloat32), OnHost({.tf32 = true}, kTf32),
                             OnHost({.bf16 = true}, kBfloat16)};
INSTANTIATE_TEST_SUITE_P(CudaOnHost, DeviceConformance, testing::ValuesIn(kCases));
INSTANTIATE_TEST_SUITE_P(CudaOnHost, Bfloat16Conformance, testing::Values(kCases[0]));
INSTANTIATE_TEST_SUITE_P(CudaOnHost, ImageConformance, testing::ValuesIn(kCases));

// A block adds up a few hundred rows. If a column has more than one block, a second pass adds the sums of the
// blocks. A thread reads one element at a time if there are 35 columns, and packs of several elements if
// there are 40.
TEST(CudaOnHost, ColumnSumsAreCorrectForAnyNumberOfRows) {
  for (const int64_t rows : {1, 8, 255, 256, 257, 5000}) {
    for (const int64_t columns : {35, 40}) {
      std::vector<float> dy(rows * columns), sums(columns, kPoison);
      for (int64_t i = 0; i < rows * columns; ++i) dy[i] = static_cast<float>(i % columns);
      std::vector<float> scratch(cuda::ColumnSumScratch(rows, columns), kPoison);
      ASSERT_EQ(cuda::MaskAndSumColumns(nullptr, ElementType::kFloat32, rows, columns, nullptr, dy.data(),
                                        sums.data(), scratch.data()),
                cudaSuccess);
      for (int64_t c = 0; c < columns; ++c) EXPECT_EQ(sums[c], static_cast<float>(c * rows)) << rows;
    }
  }
}

// The convolution is lowered in parts of several images. The outputs of a part must take a multiple of 16
// bytes, so that the next part's outputs are aligned: in the five shapes, a part is a multiple of one, four,
// two, two and four images. In the last two shapes, the channels are read in packs.
TEST(CudaOnHost, ConvolutionLoweredInPartsEqualsConvolutionLoweredAsAWhole) {
  auto device = cuda::CreateDevice({}).value();
  auto stream = device->CreateStream().value();
  const ConvolutionShape shapes[] = {
      {.rows = 11, .in = {4, 3, 3}, .out = 8, .window = SquareWindow(3, 1, 1, 1)},
      {.rows = 11, .in = {3, 3, 3}, .out = 5, .window = SquareWindow(3, 1, 1, 1)},
      {.rows = 11, .in = {5, 3, 3}, .out = 2, .window = SquareWindow(3, 1, 1, 1)},
      {.rows = 11, .in = {7, 6, 4}, .out = 6, .window = {{3, 1, 2, 0, 2}, {2, 2, 0, 1}}},
      {.rows = 11, .in = {9, 9, 4}, .out = 3, .window = SquareWindow(3, 2, 1, 1)}};
  for (const ConvolutionShape& shape : shapes) {
    for (const auto pass :
         {cuda::ConvolutionPass::kForward, cuda::ConvolutionPass::kData, cuda::ConvolutionPass::kFilters}) {
      SCOPED_TRACE(testing::Message()
                   << shape.in.height << " to " << shape.out << " channels, pass " << static_cast<int>(pass));
      auto whole = cuda::CreateCudnnPlan({}, pass, shape, cuda::Precision::kFp32).value();
      auto parts = cuda::CreateLowered({}, pass, shape, /*column_bytes=*/1).value();
      std::vector<float> x = RandomFloats(shape.rows * shape.in.elements(), 1),
                         y = RandomFloats(shape.rows * shape.output().elements(), 2),
                         filters = RandomFloats(shape.filters(), 3);
      std::vector<float> expected_x = x, expected_y = y, expected_filters = filters;
      std::vector<char> scratch(std::max(whole->workspace_bytes(), parts->workspace_bytes()));
      ASSERT_TRUE(
          whole->Run(*stream, expected_x.data(), expected_filters.data(), expected_y.data(), scratch.data())
              .ok());
      ASSERT_TRUE(parts->Run(*stream, x.data(), filters.data(), y.data(), scratch.data()).ok());
      EXPECT_THAT(x, testing::Pointwise(testing::FloatNear(1e-4f), expected_x));
      EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(1e-4f), expected_y));
      EXPECT_THAT(filters, testing::Pointwise(testing::FloatNear(1e-4f), expected_filters));
    }
  }
}

// An error of cudaMalloc, whether a retry succeeds or not, must not be reported by the next launch.
TEST(CudaOnHost, PooledMemoryIsFreedBeforeAnAllocationFails) {
  auto device = cuda::CreateDevice({}).value();
  auto stream = device->CreateStream().value();
  auto conversion = device->CreateInputConversion(0, {}).value();
  const int64_t free = device->FreeMemory().value().value();
  // The buffer of the first allocation is destroyed at once, so its memory returns to the pool. The second
  // allocation succeeds only if the pool is freed.
  ASSERT_TRUE(device->Allocate(free / 8 * 5, MemoryKind::kDevice).ok());
  ASSERT_TRUE(device->Allocate(free / 8 * 6, MemoryKind::kDevice).ok());
  EXPECT_TRUE(conversion->Run(*stream, nullptr, nullptr).ok());
  EXPECT_EQ(device->Allocate(2 * free, MemoryKind::kDevice).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(conversion->Run(*stream, nullptr, nullptr).ok());
}

TEST(CudaOnHost, CopyFromPageableMemoryReadsItBeforeReturning) {
  for (const bool reads_pageable_memory : {false, true}) {
    cuda::SetReadsPageableMemory(reads_pageable_memory);
    auto device = cuda::CreateDevice({}).value();
    auto stream = device->CreateStream().value();
    auto buffer = device->Allocate(sizeof(float), MemoryKind::kDevice).value();
    float value = 1;
    ASSERT_TRUE(device->CopyToDevice(*stream, buffer->data(), &value, sizeof(value)).ok());
    value = 2;
    ASSERT_TRUE(stream->Synchronize().ok());
    cuda::SetReadsPageableMemory(false);
    EXPECT_EQ(*buffer->floats(), 1) << reads_pageable_memory;
  }
}

TEST(CudaOnHost, CudaErrorIsClearedOnceItHasBeenReported) {
  void* block = nullptr;
  const absl::Status refused = cuda::CudaStatus(cudaMalloc(&block, size_t{1} << 40), "cudaMalloc(&block)");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(refused), testing::HasSubstr("cudaMalloc failed"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaOnHostDeathTest, WarpShuffleThatOneThreadMissesIsDetected) {
  const auto kernel = [] {
    if (threadIdx.x != 3) __shfl_xor_sync(0xffffffffu, 1, 1);
  };
  EXPECT_DEATH(cuda::RunOnHost(1, 32, kernel), "misses a shuffle");
}

}  // namespace
}  // namespace tethys
