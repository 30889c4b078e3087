// cuBLASLt's matrices are column-major. Row-major [r, c] read as column-major is its transpose [c, r], so
// cuBLASLt computes c^T [n, m] = b^T a^T: the operands are swapped and no data is moved.
//
// cuBLASLt may lack an algorithm that adds the bias for some shapes (it refuses odd leading dimensions of
// bfloat16 operands, for example). In that case cuBLASLt computes only the product, and our own kernel adds
// the bias. If cuBLASLt has no algorithm that writes bfloat16, it writes float32 into workspace, and our own
// kernel rounds the float32 result.
#include "runtime/device/cuda/matmul.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/workspace_bounds.h"

namespace tethys::cuda {
namespace {

constexpr uint64_t kMostWorkspaceBytes = kMostDenseWorkspace;
constexpr uint32_t kAlignmentBytes = 16;
constexpr int kMostAlgorithms = 8;
// Excludes in-place reductions: cuBLASLt documents that they are sequential, but not their order. Partial
// sums must be float32, so reductions in the type of the result are excluded if that type is bfloat16.
constexpr uint32_t AllowedReductions(ElementType result) {
  return result == ElementType::kFloat32
             ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
             : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
template <typename Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<kDestroy>>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Descriptor = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// The layout of a row-major matrix [rows, columns].
absl::StatusOr<Layout> CreateLayout(cudaDataType_t type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  TETHYS_RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutCreate(&layout, type, columns, rows, columns));
  return Layout(layout);
}

template <typename T>
absl::Status Set(const Descriptor& descriptor, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  TETHYS_RETURN_IF_CUBLAS_ERROR(
      cublasLtMatmulDescSetAttribute(descriptor.get(), attribute, &value, sizeof(value)));
  return absl::OkStatus();
}

template <typename T>
absl::Status Set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                 const T& value) {
  TETHYS_RETURN_IF_CUBLAS_ERROR(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
  return absl::OkStatus();
}

class LtMatmul final : public Matmul {
 public:
  explicit LtMatmul(cublasLtHandle_t handle) : handle_(handle) {}

  absl::Status Initialize(const MatmulShape& shape, Precision precision) {
    const cudaDataType_t type = precision == Precision::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    const auto [m, n, k, transpose_a, transpose_b, bias, result, accumulate] = shape;
    TETHYS_CHECK(!accumulate || result == ElementType::kFloat32, "only float32 is accumulated");
    beta_ = accumulate ? 1 : 0;
    reductions_ = AllowedReductions(result);
    TETHYS_ASSIGN_OR_RETURN(a_, transpose_a ? CreateLayout(type, k, m) : CreateLayout(type, m, k));
    TETHYS_ASSIGN_OR_RETURN(b_, transpose_b ? CreateLayout(type, n, k) : CreateLayout(type, k, n));
    TETHYS_ASSIGN_OR_RETURN(c_,
                            CreateLayout(result == ElementType::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F, m, n));
    const cublasComputeType_t compute =
        precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasLtMatmulDesc_t descriptor = nullptr;
    TETHYS_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulDescCreate(&descriptor, compute, CUDA_R_32F));
    descriptor_.reset(descriptor);
    // cuBLASLt's first operand is our b.
    const cublasOperation_t first = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    TETHYS_RETURN_IF_ERROR(Set(descriptor_, CUBLASLT_MATMUL_DESC_TRANSA, first));
    TETHYS_RETURN_IF_ERROR(Set(descriptor_, CUBLASLT_MATMUL_DESC_TRANSB, second));
    if (result == ElementType::kBfloat16) {
      TETHYS_CHECK(!bias, "a bias cannot be added to a product in bfloat16");
      const absl::Status direct = ChooseAlgorithm();
      return absl::IsUnimplemented(direct) ? ChooseAlgorithmInFloat32(m, n) : direct;
    }
    if (!bias) return ChooseAlgorithm();
    const absl::Status fused = ChooseAlgorithmWithBias();
    if (!absl::IsUnimplemented(fused)) return fused;
    rows_ = m;
    columns_ = n;
    adds_bias_after_ = true;
    TETHYS_RETURN_IF_ERROR(Set(descriptor_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT));
    return ChooseAlgorithm();
  }

  absl::Status Run(Stream& stream, const void* a, const void* b, const float* bias, void* c,
                   void* workspace) override {
    if (bias != nullptr && !adds_bias_after_) {
      TETHYS_RETURN_IF_ERROR(Set(descriptor_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    }
    const float one = 1;
    void* const to = rounded_elements_ > 0 ? static_cast<char*>(workspace) + unrounded_begin() : c;
    TETHYS_RETURN_IF_CUBLAS_ERROR(cublasLtMatmul(handle_, descriptor_.get(), &one, b, b_.get(), a, a_.get(),
                                                 &beta_, to, c_.get(), to, c_.get(), &algorithm_, workspace,
                                                 workspace_bytes_, Handle(stream)));
    if (rounded_elements_ > 0) {
      TETHYS_RETURN_IF_CUDA_ERROR(ToBfloat16(Handle(stream), rounded_elements_, static_cast<float*>(to),
                                             static_cast<__nv_bfloat16*>(c)));
    }
    if (adds_bias_after_) {
      TETHYS_RETURN_IF_CUDA_ERROR(
          AddBias(Handle(stream), ElementType::kFloat32, rows_, columns_, /*relu=*/false, bias, c));
    }
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    if (rounded_elements_ == 0) return static_cast<int64_t>(workspace_bytes_);
    return unrounded_begin() + rounded_elements_ * static_cast<int64_t>(sizeof(float));
  }

 private:
  // The offset in bytes of the unrounded result in the workspace, after the part that cuBLASLt uses.
  int64_t unrounded_begin() const {
    constexpr int64_t kAlignment = 256;
    return (static_cast<int64_t>(workspace_bytes_) + kAlignment - 1) / kAlignment * kAlignment;
  }

  absl::Status ChooseAlgorithmInFloat32(int64_t m, int64_t n) {
    TETHYS_ASSIGN_OR_RETURN(c_, CreateLayout(CUDA_R_32F, m, n));
    reductions_ = AllowedReductions(ElementType::kFloat32);
    rounded_elements_ = m * n;
    return ChooseAlgorithm();
  }

  absl::Status ChooseAlgorithmWithBias() {
    TETHYS_RETURN_IF_ERROR(Set(descriptor_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    // The heuristics derive the alignment of the bias from its address. They would assume the largest
    // alignment for a null pointer.
    const auto* somewhere = reinterpret_cast<const void*>(uintptr_t{kAlignmentBytes});
    TETHYS_RETURN_IF_ERROR(Set(descriptor_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere));
    return ChooseAlgorithm();
  }

  // Unimplemented: cuBLASLt has no algorithm for the product.
  absl::Status ChooseAlgorithm() {
    cublasLtMatmulPreference_t created = nullptr;
    TETHYS_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulPreferenceCreate(&created));
    const Preference preference(created);
    TETHYS_RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes));
    TETHYS_RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions_));
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      TETHYS_RETURN_IF_ERROR(Set(preference, operand, kAlignmentBytes));
    }
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> results = {};
    int found = 0;
    const cublasStatus_t asked =
        cublasLtMatmulAlgoGetHeuristic(handle_, descriptor_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                                       preference.get(), kMostAlgorithms, results.data(), &found);
    if (asked == CUBLAS_STATUS_NOT_SUPPORTED)
      found = 0;
    else
      TETHYS_RETURN_IF_CUBLAS_ERROR(asked);
    const auto end = results.begin() + found;
    const auto best = std::find_if(results.begin(), end, [](const cublasLtMatmulHeuristicResult_t& result) {
      return result.state == CUBLAS_STATUS_SUCCESS;
    });
    if (best == end) return absl::UnimplementedError("cuBLASLt has no algorithm for this shape");
    algorithm_ = best->algo;
    workspace_bytes_ = best->workspaceSize;
    return absl::OkStatus();
  }

  const cublasLtHandle_t handle_;
  Layout a_, b_, c_;
  Descriptor descriptor_;
  uint32_t reductions_ = 0;
  float beta_ = 0;  // The factor of the previous contents of c.
  cublasLtMatmulAlgo_t algorithm_ = {};
  size_t workspace_bytes_ = 0;
  int64_t rows_ = 0, columns_ = 0;  // Shape of c; set only if adds_bias_after_.
  bool adds_bias_after_ = false;    // True if cuBLASLt has no algorithm that adds the bias.
  // The number of elements of c if cuBLASLt has no algorithm that writes bfloat16; otherwise 0.
  int64_t rounded_elements_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(cublasLtHandle_t handle, const MatmulShape& shape,
                                                       Precision precision) {
  auto matmul = std::make_unique<LtMatmul>(handle);
  TETHYS_RETURN_IF_ERROR(Annotate(matmul->Initialize(shape, precision),
                                  absl::StrCat("product of ", shape.m, " x ", shape.k, " x ", shape.n)));
  return matmul;
}

}  // namespace tethys::cuda
