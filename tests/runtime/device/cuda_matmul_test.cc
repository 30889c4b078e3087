// Tests of Matmul, above all for a cuBLASLt that has no algorithm that adds a bias. A fake cuBLASLt records
// its arguments and computes with loops.
#include <cuda_bf16.h>

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/matmul.h"
#include "runtime/device/cuda/stream.h"

namespace {

struct FakeLayout {
  uint64_t rows, columns;  // Column-major; the leading dimension is `rows`.
  cudaDataType type;
};
struct FakeDescriptor {
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};

bool writes_bfloat16 = true;      // The fake library has algorithms with bfloat16 results.
uint32_t allowed_reductions = 0;  // The reductions that the last requested product permitted.

// The answer of the fake library to a request for an algorithm that adds a bias.
enum class Bias { kHas, kNotSupported, kFindsNone } bias_algorithm;

FakeDescriptor& Of(cublasLtMatmulDesc_t descriptor) { return *reinterpret_cast<FakeDescriptor*>(descriptor); }
const FakeLayout& Of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<const FakeLayout*>(layout); }

}  // namespace

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new FakeLayout{rows, columns, type});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<FakeLayout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor, cublasComputeType_t, cudaDataType) {
  *descriptor = reinterpret_cast<cublasLtMatmulDesc_t>(new FakeDescriptor);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete &Of(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  FakeDescriptor& fake = Of(descriptor);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) std::memcpy(&fake.first, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) std::memcpy(&fake.second, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) std::memcpy(&fake.epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) std::memcpy(&fake.bias, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<int*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) std::memcpy(&allowed_reductions, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t result_layout,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  if (Of(result_layout).type == CUDA_R_16BF && !writes_bfloat16) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (Of(descriptor).epilogue == CUBLASLT_EPILOGUE_BIAS && bias_algorithm != Bias::kHas) {
    return bias_algorithm == Bias::kNotSupported ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, const void*, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void*, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*, size_t,
                              cudaStream_t) {
  const FakeDescriptor& fake = Of(descriptor);
  const auto at = [](const void* data, const FakeLayout& layout, bool turned, uint64_t row, uint64_t column) {
    const uint64_t i = turned ? row * layout.rows + column : column * layout.rows + row;
    return layout.type == CUDA_R_16BF ? __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i])
                                      : static_cast<const float*>(data)[i];
  };
  const bool turned_a = fake.first == CUBLAS_OP_T, turned_b = fake.second == CUBLAS_OP_T;
  const uint64_t inner = turned_a ? Of(a_layout).rows : Of(a_layout).columns;
  for (uint64_t row = 0; row < Of(d_layout).rows; ++row) {
    for (uint64_t column = 0; column < Of(d_layout).columns; ++column) {
      float sum = fake.epilogue == CUBLASLT_EPILOGUE_BIAS ? fake.bias[row] : 0;
      for (uint64_t k = 0; k < inner; ++k) {
        sum += at(a, Of(a_layout), turned_a, row, k) * at(b, Of(b_layout), turned_b, k, column);
      }
      const uint64_t i = column * Of(d_layout).rows + row;
      if (Of(d_layout).type == CUDA_R_16BF) {
        static_cast<__nv_bfloat16*>(d)[i] = __float2bfloat16_rn(sum);
      } else {
        static_cast<float*>(d)[i] = sum;
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

namespace tethys::cuda {

cudaError_t ToBfloat16(cudaStream_t, int64_t count, const float* in, __nv_bfloat16* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = __float2bfloat16_rn(in[i]);
  return cudaSuccess;
}
cudaError_t AddBias(cudaStream_t, ElementType, int64_t rows, int64_t columns, bool, const float* bias,
                    void* y) {
  for (int64_t i = 0; i < rows * columns; ++i) static_cast<float*>(y)[i] += bias[i % columns];
  return cudaSuccess;
}

namespace {

// Tests with and without an algorithm that also adds the bias. An algorithm for the product alone always
// exists.
TEST(CudaMatmul, Bias_IsAddedWithOrWithoutAnAlgorithmThatAddsIt) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};           // Shape [2, 3].
  const std::vector<float> b = {1, 0, 2, 0, 1, 1, 3, 0, 1};  // Shape [3, 3].
  const std::vector<float> bias = {100, 200, 300};
  const std::vector<float> expected = {110, 202, 307, 122, 205, 319};
  auto stream = CreateStream().value();
  for (const Bias answer : {Bias::kHas, Bias::kNotSupported, Bias::kFindsNone}) {
    bias_algorithm = answer;
    const absl::StatusOr<std::unique_ptr<Matmul>> product =
        Matmul::Create(nullptr, {.m = 2, .n = 3, .k = 3, .bias = true}, Precision::kFp32);
    ASSERT_TRUE(product.ok()) << product.status();
    std::vector<float> c(6, -1);
    ASSERT_TRUE((*product)->Run(*stream, a.data(), b.data(), bias.data(), c.data(), nullptr).ok());
    EXPECT_EQ(c, expected) << static_cast<int>(answer);
  }
}

TEST(CudaMatmul, ProductWithoutBias_AddsNoBias) {
  const std::vector<float> a = {1, 2}, b = {3, 4};  // Shapes [1, 2] and [2, 1].
  auto stream = CreateStream().value();
  bias_algorithm = Bias::kNotSupported;
  auto product = Matmul::Create(nullptr, {.m = 1, .n = 1, .k = 2}, Precision::kFp32).value();
  float c = -1;
  ASSERT_TRUE(product->Run(*stream, a.data(), b.data(), nullptr, &c, nullptr).ok());
  EXPECT_EQ(c, 11);
}

TEST(CudaMatmul, ProductOfBfloat16_IsWrittenAsFloat32OrBfloat16AsRequested) {
  const std::vector<__nv_bfloat16> a = {1.0f, 128.0f}, b = {1.0f, 3.0f};  // Shapes [1, 2] and [2, 1].
  auto stream = CreateStream().value();
  bias_algorithm = Bias::kHas;
  MatmulShape shape = {.m = 1, .n = 1, .k = 2};
  float single = -1;
  auto product = Matmul::Create(nullptr, shape, Precision::kBf16).value();
  ASSERT_TRUE(product->Run(*stream, a.data(), b.data(), nullptr, &single, nullptr).ok());
  EXPECT_EQ(single, 385);
  EXPECT_EQ(allowed_reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE, 0u);
  shape.result = ElementType::kBfloat16;
  __nv_bfloat16 half = -1.0f;
  product = Matmul::Create(nullptr, shape, Precision::kBf16).value();
  ASSERT_TRUE(product->Run(*stream, a.data(), b.data(), nullptr, &half, nullptr).ok());
  EXPECT_EQ(__bfloat162float(half), 384) << "385 has nine significant bits";
  EXPECT_EQ(allowed_reductions, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) << "parts of sums are float32";
}

TEST(CudaMatmul, ResultInBfloat16_IsRoundedIfNoAlgorithmWritesBfloat16) {
  // Shapes [2, 2] and [2, 1].
  const std::vector<__nv_bfloat16> a = {1.0f, 128.0f, 1.0f, 1.0f}, b = {1.0f, 3.0f};
  auto stream = CreateStream().value();
  writes_bfloat16 = false;
  const auto product =
      Matmul::Create(nullptr, {.m = 2, .n = 1, .k = 2, .result = ElementType::kBfloat16}, Precision::kBf16)
          .value();
  writes_bfloat16 = true;
  std::vector<char> workspace(product->workspace_bytes());
  std::vector<__nv_bfloat16> c = {-1.0f, -1.0f};
  ASSERT_TRUE(product->Run(*stream, a.data(), b.data(), nullptr, c.data(), workspace.data()).ok());
  EXPECT_EQ(__bfloat162float(c[0]), 384);
  EXPECT_EQ(__bfloat162float(c[1]), 4);
}

}  // namespace
}  // namespace tethys::cuda
