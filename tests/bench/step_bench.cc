// Compares a whole training step (input conversion, forward, loss, backward, SGD) with the matrix products of
// that step alone, each computed by the fastest of oneDNN's sgemm, matmul and inner product. Batch 128, one
// thread, pinned to one processor. Rounds of the step alternate with rounds of the products. Unit:
// microseconds, medians over rounds.
//
// Limit: step / products <= 1.15, conversion included; goal 1.05.
//
//   step_bench [ROUNDS] [PROCESSOR]     default 101 rounds on processor 1 (0 on a machine with one processor)
//   step_bench thin [PROCESSOR]         a dense layer of 4096 x 4096 with one to five rows, beside the
//                                       fastest algorithm for each of its products
//   step_bench NETWORK [PROCESSOR [THREADS]]
//                                       for peers/torch_step.py, which has the same networks: for each number
//                                       read from standard input, makes that many steps and prints
//                                       microseconds per step. Uses THREADS processors, beginning with
//                                       PROCESSOR. NETWORK+recompute computes activations again
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/strip.h"
#include "runtime/base/clock.h"
#include "runtime/local_strategy.h"
#include "tests/bench/dense_products.h"
#include "tests/bench/must.h"
#include "tests/testing/happened_event.h"
#include "workers/replica.h"

namespace tethys {
namespace {

constexpr int64_t kRows = 128;
constexpr int64_t kClasses = 10;
constexpr int kTrials = 15;  // Trials of each candidate, to find the fastest.
// The approximate time of a round. Rounds are short, so a disturbance affects few of them.
constexpr Nanoseconds kRound = 10 * kMillisecond;

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}
double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

template <typename Function>
double MicrosecondsPerCall(int64_t calls, Function&& function) {
  const MonotonicClock clock;
  const Nanoseconds start = clock.Now();
  for (int64_t i = 0; i < calls; ++i) function();
  return static_cast<double>(clock.Now() - start) / static_cast<double>(calls) / 1e3;
}

int64_t ResidentKiB() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

proto::Model MlpConfig(const std::vector<int64_t>& widths) {
  proto::Model config;
  config.add_layer()->mutable_flatten();
  for (size_t i = 0; i < widths.size(); ++i) {
    proto::Dense* dense = config.add_layer()->mutable_dense();
    dense->set_units(widths[i]);
    if (i + 1 < widths.size()) dense->set_activation(proto::RELU);
  }
  return config;
}

struct Workload {
  proto::Model model;
  Shape sample;
  int64_t classes;
  int64_t rows;
  bool recomputes = false;
};

// NotFound: there is no such network.
absl::StatusOr<Workload> NetworkOf(absl::string_view name) {
  const bool recomputes = absl::ConsumeSuffix(&name, "+recompute");
  const Shape grey = {28, 28}, small = {32, 32, 3}, large = {224, 224, 3};
  Workload workload = {.model = {}, .sample = large, .classes = 1000, .rows = 4};
  if (name == "lenet") {
    workload = {.model = {}, .sample = grey, .classes = kClasses, .rows = kRows};
    workload.model.mutable_lenet();
  } else if (name == "resnet20") {
    workload = {.model = {}, .sample = small, .classes = kClasses, .rows = kRows};
    workload.model.mutable_resnet()->set_stem(proto::Resnet::CIFAR);
  } else if (name == "vgg_small") {
    workload = {.model = {}, .sample = small, .classes = kClasses, .rows = 32};
    proto::Vgg& vgg = *workload.model.mutable_vgg();
    for (int block = 0; block < 3; ++block) vgg.add_convolutions(2);
    vgg.add_dense_units(512);
    vgg.set_dropout(0);
  } else if (name == "resnet50") {
    workload.model.mutable_resnet();
  } else if (name == "mobilenet") {
    workload.model.mutable_mobilenet()->set_dropout(0);
  } else if (name == "vgg16") {
    workload.model.mutable_vgg()->set_dropout(0);
    workload.rows = 2;
  } else {
    return absl::NotFoundError(absl::StrCat("there is no network ", name));
  }
  workload.recomputes = recomputes;
  return workload;
}

Workload Mlp(const std::vector<int64_t>& widths) {
  return {.model = MlpConfig(widths), .sample = {28, 28}, .classes = kClasses, .rows = kRows};
}

// A replica with the local strategy. All its steps use the same batch; nothing is loaded or recorded.
class Step {
 public:
  Step(const Workload& workload, double momentum, int threads = 1)
      : replica_(Must(Replica::Create(Must(Model::Create(workload.model, workload.sample, workload.classes)),
                                      Must(CreateCpuDevice(threads)), clock_,
                                      {.rows = workload.rows, .recomputes = workload.recomputes}))),
        rows_(workload.rows),
        batch_(rows_, model().sample_elements()) {
    MustBeOk(replica_->FillInitialValues(1));
    resident_before_plan_ = ResidentKiB();
    proto::Optimizer optimizer;
    optimizer.mutable_sgd()->set_momentum(momentum);
    optimizer.set_learning_rate(1e-3);
    MustBeOk(replica_->Attach(CreateLocalStrategy(
        Must(replica_->MakeUpdate(optimizer, LearningRateSchedule(optimizer, {}))), clock_)));
    resident_with_plan_ = ResidentKiB();
    const int64_t elements = rows_ * model().sample_elements();
    conversion_ = Must(replica_->device().CreateInputConversion(elements, {}));
    converted_ = Must(replica_->device().Allocate(elements * sizeof(float), MemoryKind::kDevice));
    FillBatch();
  }

  void Run() {
    Strategy& strategy = *replica_->strategy();
    const StepInfo step{.sample_count = rows_, .global_sample_count = rows_};
    MustBeOk(strategy.BeginStep(step));
    MustBeOk(replica_->plan().Forward(batch_.batch()));
    MustBeOk(replica_->plan().Backward(
        [&](int64_t index, const Event& event) { return strategy.GradientReady(index, event); }));
    Must(EndStep(strategy, step));
    MustBeOk(replica_->plan().EnqueueStatistics(nullptr));
  }
  void Convert() {
    MustBeOk(conversion_->Run(replica_->stream(), batch_.batch().inputs, converted_->floats()));
  }
  const Model& model() const { return replica_->model(); }
  int64_t resident_before_plan() const { return resident_before_plan_; }
  int64_t resident_with_plan() const { return resident_with_plan_; }

 private:
  void FillBatch() {
    const HostBatch batch = batch_.batch();
    // About half of the pixels are background, as in Fashion-MNIST.
    for (int64_t i = 0; i < rows_ * model().sample_elements(); ++i) {
      batch.inputs[i] = i % 56 < 28 ? 0 : static_cast<uint8_t>(i * 2654435761u >> 24);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      batch.labels[r] = static_cast<int32_t>(r % kClasses);
      batch.weights[r] = 1;
    }
  }

  const MonotonicClock clock_;
  const std::unique_ptr<Replica> replica_;
  const int64_t rows_;
  BatchBuffer batch_;
  int64_t resident_before_plan_ = 0;
  int64_t resident_with_plan_ = 0;
  std::unique_ptr<InputConversionPrimitive> conversion_;
  std::unique_ptr<Buffer> converted_;
};

// Tries all algorithms of one product in turn, prints their medians and returns the fastest.
ProductCandidate Fastest(Product product, const DenseShape& shape) {
  std::vector<ProductCandidate> candidates = MakeCandidates(product, shape);
  std::vector<std::vector<double>> times(candidates.size());
  const int64_t calls = std::max<int64_t>(5, 50'000'000 / (shape.rows * shape.in * shape.out));
  for (int trial = 0; trial < kTrials; ++trial) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      times[i].push_back(MicrosecondsPerCall(calls, candidates[i].run));
    }
  }
  std::printf("  %-8s %4ld x %4ld x %4ld:", ProductName(product), static_cast<long>(shape.rows),
              static_cast<long>(shape.in), static_cast<long>(shape.out));
  size_t fastest = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    std::printf("  %s %.1f", candidates[i].algorithm.c_str(), Median(times[i]));
    if (Median(times[i]) < Median(times[fastest])) fastest = i;
  }
  std::printf("  -> %s\n", candidates[fastest].algorithm.c_str());
  return candidates[fastest];
}

std::vector<ProductCandidate> FastestProducts(const Model& model) {
  std::vector<ProductCandidate> products;
  std::vector<DenseShape> shapes;
  for (const Model::Layer& layer : model.layers()) {
    shapes.push_back({.rows = kRows, .in = layer.inputs[0][0], .out = layer.output[0]});
    products.push_back(Fastest(Product::kForward, shapes.back()));
  }
  for (size_t i = shapes.size(); i-- > 0;) {
    products.push_back(Fastest(Product::kWeights, shapes[i]));
    if (i > 0) products.push_back(Fastest(Product::kData, shapes[i]));
  }
  return products;
}

void Measure(const std::string& name, const std::vector<int64_t>& widths, double momentum, int rounds) {
  std::printf("%s, momentum %g\n", name.c_str(), momentum);
  Step step(Mlp(widths), momentum);
  const std::vector<ProductCandidate> products = FastestProducts(step.model());
  const auto run_products = [&] {
    for (const ProductCandidate& product : products) product.run();
  };
  for (int i = 0; i < 20; ++i) step.Run(), run_products(), step.Convert();
  const auto calls =
      std::max<int64_t>(10, static_cast<int64_t>(kRound / 1e3 / MicrosecondsPerCall(20, run_products)));
  std::vector<double> steps, alone, conversions, ratios, ratios_without;
  for (int round = 0; round < rounds; ++round) {
    steps.push_back(MicrosecondsPerCall(calls, [&] { step.Run(); }));
    alone.push_back(MicrosecondsPerCall(calls, run_products));
    conversions.push_back(MicrosecondsPerCall(calls, [&] { step.Convert(); }));
    ratios.push_back(steps.back() / alone.back());
    ratios_without.push_back((steps.back() - conversions.back()) / alone.back());
  }
  std::printf("  products %.1f, step %.1f, of it conversion %.1f\n", Median(alone), Median(steps),
              Median(conversions));
  std::printf("  step / products: %.3f (quartiles %.3f, %.3f); without the conversion %.3f; limit 1.15\n",
              Median(ratios), Quantile(ratios, 0.25), Quantile(ratios, 0.75), Median(ratios_without));
}

void MeasureThin(int rounds) {
  const auto device = Must(CreateCpuDevice(1));
  const auto stream = Must(device->CreateStream());
  for (int64_t rows = 1; rows <= 5; ++rows) {
    const DenseShape shape = {.rows = rows, .in = 4096, .out = 4096};
    const std::vector<ProductCandidate> products = {
        Fastest(Product::kForward, shape), Fastest(Product::kData, shape), Fastest(Product::kWeights, shape)};
    const auto layer = Must(device->Create(shape));
    Arena x(rows * shape.in), weights(shape.in * shape.out), y(rows * shape.out), dy(rows * shape.out);
    Arena dx(x.size()), dweights(weights.size()), bias(shape.out), dbias(shape.out);
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
      const double step = MicrosecondsPerCall(1, [&] {
        MustBeOk(layer->Forward(*stream, x.data(), weights.data(), bias.data(), y.data()));
        MustBeOk(layer->Backward(*stream, x.data(), weights.data(), y.data(), dy.data(), dx.data(),
                                 dweights.data(), dbias.data()));
      });
      ratios.push_back(step / MicrosecondsPerCall(1, [&] {
                         for (const ProductCandidate& product : products) product.run();
                       }));
    }
    std::printf("  %ld rows: step / products: %.3f (quartiles %.3f, %.3f), %s\n", static_cast<long>(rows),
                Median(ratios), Quantile(ratios, 0.25), Quantile(ratios, 0.75), layer->Describe().c_str());
  }
}

void PrintMemory() {
  const int64_t start = ResidentKiB();
  const auto device = Must(CreateCpuDevice(1));
  const int64_t with_device = ResidentKiB();
  Step step(Mlp({128, 10}), 0.9);
  const int64_t before_step = ResidentKiB();
  step.Run();
  std::printf(
      "resident memory, 784-128-10, KiB: start %ld, device +%ld, plan and slots +%ld, first step +%ld\n\n",
      static_cast<long>(start), static_cast<long>(with_device - start),
      static_cast<long>(step.resident_with_plan() - step.resident_before_plan()),
      static_cast<long>(ResidentKiB() - before_step));
}

void Serve(const Workload& workload, int threads) {
  Step step(workload, 0.9, threads);
  for (int steps = 0; std::scanf("%d", &steps) == 1 && steps > 0;) {
    std::printf("%.1f\n", MicrosecondsPerCall(steps, [&] { step.Run(); }));
    std::fflush(stdout);
  }
}

void Pin(int processor, int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; ++i) CPU_SET(processor + i, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0)
    std::printf("not pinned: processor %d refused\n", processor);
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  const auto network = tethys::NetworkOf(argc > 1 ? argv[1] : "");
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 101;
  const int threads = argc > 3 ? std::max(1, std::atoi(argv[3])) : 1;
  tethys::Pin(argc > 2 ? std::atoi(argv[2]) : sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0, threads);
  if (network.ok()) {
    tethys::Serve(*network, threads);
    return 0;
  }
  if (argc > 1 && std::string(argv[1]) == "thin") {
    tethys::MeasureThin(11);
    return 0;
  }
  tethys::PrintMemory();
  for (const double momentum : {0.9, 0.0}) {
    tethys::Measure("784-128-10", {128, 10}, momentum, rounds);
    tethys::Measure("784-300-100-10", {300, 100, 10}, momentum, rounds);
  }
  return 0;
}
