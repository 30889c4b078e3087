// Sums and activation functions.
#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class Sum final : public SumPrimitive {
 public:
  Sum(const SumShape& shape, const Kernels& kernels)
      : count_(shape.count), add_(shape.relu ? kernels.add_relu : kernels.add) {}

  absl::Status Run(Stream&, const void* a, const void* b, void* sum) override {
    const FlushDenormals flush;
    add_(count_, Floats(a), Floats(b), Floats(sum));
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  void (*const add_)(int64_t count, const float* a, const float* b, float* sum);
};

class Activation final : public ActivationPrimitive {
 public:
  Activation(int64_t count, const ActivationLoops& loops) : count_(count), loops_(loops) {}

  absl::Status Forward(Stream&, const void* x, void* y) override {
    const FlushDenormals flush;
    loops_.forward(count_, Floats(x), Floats(y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const void* y, const void* dy, void* dx) override {
    const FlushDenormals flush;
    loops_.backward(count_, Floats(y), Floats(dy), Floats(dx));
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const ActivationLoops& loops_;
};

}  // namespace

Created<SumShape> Create(const SumShape& shape, const Context& context) {
  TETHYS_RETURN_IF_ERROR(CheckType(shape, ElementType::kFloat32));
  return std::make_unique<Sum>(shape, context.kernels);
}

Created<ActivationShape> Create(const ActivationShape& shape, const Context& context) {
  const ActivationLoops& loops = context.kernels.activations[static_cast<int>(shape.function)];
  return std::make_unique<Activation>(shape.count, loops);
}

}  // namespace tethys::cpu
