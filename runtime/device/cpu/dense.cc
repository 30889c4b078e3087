// Dense layers on oneDNN's sgemm.
//
// Every shape and product uses sgemm, so results never depend on a choice of algorithm.
// tests/bench/step_bench.cc compares sgemm with oneDNN's matmul and inner product on plain layouts. On
// AVX-512 with one thread, for the large products of the models 784-128-10 and 784-300-100-10, sgemm is
// within 3 % of the best. In data products of about 128 x 300 x 100 it is up to 10 % slower than matmul; in
// weight products it is up to 10 % faster. Fusing bias and relu into the product gains nothing measurable. A
// oneDNN primitive allocates 5 to 8 times per execution. sgemm allocates once, a packing buffer that a caller
// cannot provide.
#include <oneapi/dnnl/dnnl.h>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"

// A function of the OpenMP runtime that oneDNN is built on. Including <omp.h> would bind us to one compiler's
// runtime.
extern "C" void omp_set_num_threads(int threads);

namespace tethys::cpu {
namespace {

constexpr char kPlain = 'N';
constexpr char kTransposed = 'T';

// c [m, n] = a [m, k] b [k, n], row-major. A transposed operand is stored as [k, m] or [n, k].
absl::Status Product(char a_layout, char b_layout, int64_t m, int64_t n, int64_t k, const float* a,
                     const float* b, float* c) {
  const int64_t a_row = a_layout == kPlain ? k : m;
  const int64_t b_row = b_layout == kPlain ? n : k;
  const dnnl_status_t status = dnnl_sgemm(a_layout, b_layout, m, n, k, 1.0f, a, a_row, b, b_row, 0.0f, c, n);
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN's sgemm of ", m, " x ", n, " x ", k, " failed with status ",
                                          static_cast<int>(status)));
}

class Dense final : public DensePrimitive {
 public:
  Dense(const DenseShape& shape, int threads, const Kernels& kernels)
      : shape_(shape), threads_(threads), kernels_(kernels) {}

  absl::Status Forward(Stream&, const float* x, const float* weights, const float* bias, float* y) override {
    const auto [rows, in, out, relu] = shape_;
    const FlushDenormals flush;
    omp_set_num_threads(threads_);
    TETHYS_RETURN_IF_ERROR(Product(kPlain, kPlain, rows, out, in, x, weights, y));
    (relu ? kernels_.add_bias_relu : kernels_.add_bias)(rows, out, bias, y);
    return absl::OkStatus();
  }

  absl::Status Backward(Stream&, const float* x, const float* weights, const float* y, float* dy, float* dx,
                        float* dweights, float* dbias) override {
    const auto [rows, in, out, relu] = shape_;
    const FlushDenormals flush;
    omp_set_num_threads(threads_);
    if (relu) {
      kernels_.mask_and_sum_columns(rows, out, y, dy, dbias);
    } else {
      kernels_.sum_columns(rows, out, dy, dbias);
    }
    TETHYS_RETURN_IF_ERROR(Product(kTransposed, kPlain, in, out, rows, x, dy, dweights));
    if (dx == nullptr) return absl::OkStatus();
    return Product(kPlain, kTransposed, rows, in, out, dy, weights, dx);
  }

  std::string Describe() const override { return "forward sgemm, data sgemm, weights sgemm"; }

 private:
  const DenseShape shape_;
  const int threads_;
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<DensePrimitive> CreateDense(const DenseShape& shape, int threads, const Kernels& kernels) {
  return std::make_unique<Dense>(shape, threads, kernels);
}

}  // namespace tethys::cpu
