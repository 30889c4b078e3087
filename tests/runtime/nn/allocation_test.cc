// Tests that a training step allocates no heap memory on its thread, except inside oneDNN. What a matrix
// product (sgemm) allocates there depends on oneDNN's version, on the shape and on the processor, and is not
// counted. Each execution of any other primitive makes a few small objects for its arguments (malloc,
// operator new), more of them in oneDNN 3.
//
// This binary replaces the allocation functions by functions that count, and sgemm by a function that pauses
// the count. AddressSanitizer and ThreadSanitizer bring their own malloc, so under them only operator new is
// counted.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <cstdlib>
#include <new>

#include "gtest/gtest.h"
#include "tests/runtime/nn/network_fixture.h"
#include "tests/testing/sanitized.h"

namespace {
thread_local int64_t news = 0;
thread_local int64_t mallocs = 0;
thread_local int64_t aligned = 0;
thread_local int64_t products = 0;
}  // namespace

extern "C" dnnl_status_t DNNL_API dnnl_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n,
                                             dnnl_dim_t k, float alpha, const float* a, dnnl_dim_t lda,
                                             const float* b, dnnl_dim_t ldb, float beta, float* c,
                                             dnnl_dim_t ldc) {
  static const auto product = reinterpret_cast<decltype(&dnnl_sgemm)>(dlsym(RTLD_NEXT, "dnnl_sgemm"));
  const int64_t before[] = {news, mallocs, aligned};
  const dnnl_status_t status = product(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  news = before[0], mallocs = before[1], aligned = before[2];
  ++products;
  return status;
}

void* operator new(size_t size) {
  ++news;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#if !TETHYS_SANITIZED
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) { return ++mallocs, __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return ++mallocs, __libc_calloc(count, size); }
void* realloc(void* memory, size_t size) { return ++mallocs, __libc_realloc(memory, size); }
void* aligned_alloc(size_t alignment, size_t size) { return ++mallocs, __libc_memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  ++aligned;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace tethys {
namespace {

constexpr int64_t kSteps = 10;
constexpr int64_t kMostParts = 4;
// Upper bound on the objects that oneDNN makes for an execution other than a matrix product.
constexpr int64_t kPerExecution = DNNL_VERSION_MAJOR >= 3 ? 8 : 5;

struct Counts {
  int64_t news = 0, mallocs = 0, aligned = 0, products = 0;
};

// Allocations of kSteps steps, after a first step in which oneDNN makes its kernels.
Counts AllocationsOf(Network& network) {
  const MonotonicClock clock;
  proto::Optimizer config;
  config.set_learning_rate(0.01);
  config.mutable_sgd()->set_momentum(0.9);
  const auto strategy = MakeLocalStrategy(network, config, clock);
  LossResult losses[kMostParts];
  const auto step = [&](int64_t i) {
    const StepInfo info{.step = i, .sample_count = 128, .global_sample_count = 128};
    bool ok = strategy->BeginStep(info).ok() && network.plan->Upload(network.batch).ok() &&
              network.plan->TakeBatch().ok();
    for (int64_t part = 0; part < network.plan->micro_batches(); ++part) {
      ok = ok && network.plan->Forward(part).ok() &&
           network.plan->Backward([&](int64_t k, const Event& e) { return strategy->GradientReady(k, e); })
               .ok();
    }
    return ok && EndStep(*strategy, info).ok() && network.plan->EnqueueStatistics(nullptr).ok() &&
           network.plan->EnqueueLoss(losses).ok();
  };
  bool ok = step(0);
  news = mallocs = aligned = products = 0;
  for (int64_t i = 1; i <= kSteps; ++i) ok = step(i) && ok;
  const Counts counts = {news, mallocs, aligned, products};
  EXPECT_TRUE(ok);
  return counts;
}

TEST(Allocation, OperatorNewOfThisTestCountsAllocations) {
  const int64_t before = news;
  ::operator delete(::operator new(64));
  EXPECT_EQ(news, before + 1);
}

TEST(Allocation, DenseStepAllocatesOnlyInsideOneDnn) {
  // Products for the outputs and weight gradients of three layers, and for the input gradients of two.
  constexpr int64_t kProducts = 8;
  Network network({28, 28}, {300, 100, 10}, 128);
  const Counts counts = AllocationsOf(network);
  EXPECT_EQ(counts.products, kSteps * kProducts);
  EXPECT_EQ(counts.news, 0);
  EXPECT_EQ(counts.mallocs, 0);
  EXPECT_EQ(counts.aligned, 0);
}

TEST(Allocation, MicroBatchesAllocateOnlyInsideOneDnn) {
  constexpr int64_t kProducts = 8 * kMostParts;
  Network network({28, 28}, {300, 100, 10}, 128);
  network.plan =
      Plan::Compile(network.model, *network.device, *network.stream,
                    {.rows = 128, .micro_batches = kMostParts},
                    {.parameters = network.parameters.data(), .gradient_sums = network.gradients.data()})
          .value();
  const Counts counts = AllocationsOf(network);
  EXPECT_EQ(counts.products, kSteps * kProducts);
  EXPECT_EQ(counts.news, 0);
  EXPECT_EQ(counts.mallocs, 0);
  EXPECT_EQ(counts.aligned, 0);
}

TEST(Allocation, ConvolutionStepAllocatesOnlyInsideOneDnn) {
  // Products for outputs, weight gradients and input gradients of three dense layers.
  constexpr int64_t kProducts = 9;
  // A convolution and a reorder in each of five passes: two forward, two for filter gradients and one for
  // input gradients.
  constexpr int64_t kExecutions = 10;
  Network lenet(MakeLenet(), 128);
  const Counts counts = AllocationsOf(lenet);
  EXPECT_EQ(counts.products, kSteps * kProducts);
  EXPECT_LE(counts.news, kSteps * kExecutions * kPerExecution);
  EXPECT_LE(counts.mallocs, kSteps * kExecutions * kPerExecution);
  EXPECT_LE(counts.aligned, kSteps * kExecutions * kPerExecution);
}

TEST(Allocation, BatchNormalisationAllocatesNothing) {
  // Products for the outputs, weight gradients and input gradients of two dense layers.
  constexpr int64_t kProducts = 6;
  proto::Model config;
  config.add_layer()->mutable_batch_normalisation();
  config.add_layer()->mutable_flatten();
  config.add_layer()->mutable_dense()->set_units(100);
  config.add_layer()->mutable_batch_normalisation()->set_activation(proto::RELU);
  config.add_layer()->mutable_dense()->set_units(10);
  Network network(Model::Create(config, {28, 28}, 10).value(), 128);
  const Counts counts = AllocationsOf(network);
  EXPECT_EQ(counts.products, kSteps * kProducts);
  EXPECT_EQ(counts.news, 0);
  EXPECT_EQ(counts.mallocs, 0);
  EXPECT_EQ(counts.aligned, 0);
  EXPECT_NE(network.statistics.data()[0], 0) << "the steps change the moving statistics";
}

}  // namespace
}  // namespace tethys
