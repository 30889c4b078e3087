// The matrix products of a dense layer by every algorithm that oneDNN offers for plain layouts. step_bench
// compares a training step with them. Not thread-safe.
#ifndef TETHYS_TESTS_BENCH_DENSE_PRODUCTS_H_
#define TETHYS_TESTS_BENCH_DENSE_PRODUCTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace tethys {

enum class Product { kForward, kData, kWeights };
const char* ProductName(Product product);

// One product by one algorithm, ready to run repeatedly.
struct ProductCandidate {
  std::string algorithm;  // One of sgemm, matmul, inner product.
  std::function<void()> run;
};

// All candidates use the same operands.
std::vector<ProductCandidate> MakeCandidates(Product product, const DenseShape& shape);

}  // namespace tethys

#endif  // TETHYS_TESTS_BENCH_DENSE_PRODUCTS_H_
