// Sums, activation functions and dropout.
#include <algorithm>

#include "runtime/base/random.h"
#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class Sum final : public SumPrimitive {
 public:
  Sum(int64_t count, const Kernels& kernels) : count_(count), kernels_(kernels) {}

  absl::Status Run(Stream&, const float* a, const float* b, float* sum) override {
    const FlushDenormals flush;
    kernels_.add(count_, a, b, sum);
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const Kernels& kernels_;
};

class Activation final : public ActivationPrimitive {
 public:
  Activation(int64_t count, const ActivationLoops& loops) : count_(count), loops_(loops) {}

  absl::Status Forward(Stream&, const float* x, float* y) override {
    const FlushDenormals flush;
    loops_.forward(count_, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const float* y, const float* dy, float* dx) override {
    const FlushDenormals flush;
    loops_.backward(count_, y, dy, dx);
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const ActivationLoops& loops_;
};

class Dropout final : public DropoutPrimitive {
 public:
  Dropout(const DropoutShape& shape, const Kernels& kernels)
      : shape_(shape), key_(RandomKey(shape.seed, RandomPurpose::kDropout)), kernels_(kernels) {}

  absl::Status Run(Stream&, const uint64_t* first_row, const float* in, float* out) override {
    const FlushDenormals flush;
    const int64_t count = shape_.rows * shape_.elements;
    const uint64_t first = *first_row * static_cast<uint64_t>(shape_.elements);
    const float scale = 1 / (1 - shape_.rate);
    float numbers[kBlock];
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t part = std::min(kBlock, count - i);
      kernels_.uniform(key_, shape_.layer, first + i, part, numbers);
      kernels_.keep(part, shape_.rate, scale, numbers, in + i, out + i);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlock = 1024;

  const DropoutShape shape_;
  const PhiloxKey key_;
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<DropoutPrimitive> CreateDropout(const DropoutShape& shape, const Kernels& kernels) {
  return std::make_unique<Dropout>(shape, kernels);
}

std::unique_ptr<SumPrimitive> CreateSum(int64_t count, const Kernels& kernels) {
  return std::make_unique<Sum>(count, kernels);
}

std::unique_ptr<ActivationPrimitive> CreateActivation(int64_t count, ActivationFunction function,
                                                      const Kernels& kernels) {
  return std::make_unique<Activation>(count, kernels.activations[static_cast<int>(function)]);
}

}  // namespace tethys::cpu
