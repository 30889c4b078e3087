// Dense layers. oneDNN's sgemm computes their products; for few rows and many weights, our own loops do. The
// choice depends on the shape and the number of threads alone.
//
// tests/bench/step_bench.cc compares sgemm with oneDNN's matmul and inner product on plain layouts. On
// AVX-512 with one thread, for the large products of the models 784-128-10 and 784-300-100-10, sgemm is
// within 3 % of the best. In data products of about 128 x 300 x 100, sgemm is up to 10 % slower than matmul;
// in weight products, sgemm is up to 10 % faster. Fusing bias and relu into the product gains nothing
// measurable. A oneDNN primitive allocates 5 to 8 times per execution. sgemm allocates once, a packing buffer
// that a caller cannot provide.
#include <oneapi/dnnl/dnnl.h>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/onednn.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"

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
  return absl::Status(OnednnCode(status), absl::StrCat("oneDNN's sgemm of ", m, " x ", n, " x ", k,
                                                       " failed with status ", static_cast<int>(status)));
}

// The loops for products of few rows with many weights; null for other shapes, whose products sgemm computes.
// Unlike sgemm, the loops need no packed copy of the weights. From 2^20 weights on, which is more than any
// second-level cache holds, the loops take 0.54 of sgemm's time with two rows and 0.76 with four (step_bench
// thin).
const ThinProducts* ThinProductsFor(const DenseShape& shape, const Kernels& kernels) {
  constexpr int64_t kManyWeights = int64_t{1} << 20;
  const bool thin = shape.rows <= kMostThinRows && shape.in * shape.out >= kManyWeights;
  return thin ? &kernels.thin_products[shape.rows - 1] : nullptr;
}

class Dense final : public DensePrimitive {
 public:
  Dense(const DenseShape& shape, int threads, const Kernels& kernels)
      : shape_(shape), threads_(threads), kernels_(kernels), thin_(ThinProductsFor(shape, kernels)) {}

  absl::Status Forward(Stream&, const void* x, const float* weights, const float* bias, void* y) override {
    const auto [rows, in, out, relu] = shape_;
    const FlushDenormals flush;
    omp_set_num_threads(threads_);
    if (thin_ != nullptr) {
      thin_->forward(in, out, Floats(x), weights, Floats(y));
    } else {
      TETHYS_RETURN_IF_ERROR(Product(kPlain, kPlain, rows, out, in, Floats(x), weights, Floats(y)));
    }
    (relu ? kernels_.add_bias_relu : kernels_.add_bias)(rows, out, bias, Floats(y));
    return absl::OkStatus();
  }

  absl::Status Backward(Stream&, const void* x, const float* weights, const void* y, void* dy, void* dx,
                        float* dweights, float* dbias) override {
    const auto [rows, in, out, relu] = shape_;
    const FlushDenormals flush;
    omp_set_num_threads(threads_);
    if (relu) {
      kernels_.mask_and_sum_columns(rows, out, Floats(y), Floats(dy), dbias);
    } else {
      kernels_.sum_columns(rows, out, Floats(dy), dbias);
    }
    if (thin_weights()) {
      thin_->weights(in, out, Floats(x), Floats(dy), dweights);
    } else {
      TETHYS_RETURN_IF_ERROR(Product(kTransposed, kPlain, in, out, rows, Floats(x), Floats(dy), dweights));
    }
    if (dx == nullptr) return absl::OkStatus();
    if (thin_ != nullptr) {
      thin_->data(in, out, Floats(dy), weights, Floats(dx));
      return absl::OkStatus();
    }
    return Product(kPlain, kTransposed, rows, in, out, Floats(dy), weights, Floats(dx));
  }

  std::string Describe() const override {
    return absl::StrCat(thin_ != nullptr ? "forward loops, data loops" : "forward sgemm, data sgemm",
                        thin_weights() ? ", weights loops" : ", weights sgemm");
  }

 private:
  // True if the loops of thin_ compute the gradient of the weights. These loops run on one thread, which
  // cannot use the full memory bandwidth, so a device with several threads uses sgemm.
  bool thin_weights() const { return thin_ != nullptr && threads_ == 1; }

  const DenseShape shape_;
  const int threads_;
  const Kernels& kernels_;
  const ThinProducts* const thin_;  // Null: sgemm computes the product.
};

}  // namespace

Created<DenseShape> Create(const DenseShape& shape, const Context& context) {
  return std::make_unique<Dense>(shape, context.threads, context.kernels);
}

}  // namespace tethys::cpu
