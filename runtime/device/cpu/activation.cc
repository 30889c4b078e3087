// The sum of two arrays, element by element, and activation functions.
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class Sum final : public SumPrimitive {
 public:
  Sum(const SumShape& shape, const Context& context)
      : count_(shape.count),
        threads_(context.threads),
        add_(shape.relu ? context.kernels.add_relu : context.kernels.add) {}

  absl::Status Run(Stream&, const void* a, const void* b, void* sum) override {
    ForEachPart(threads_, count_, kLeastElements, [&](int64_t begin, int64_t end) {
      add_(end - begin, Floats(a) + begin, Floats(b) + begin, Floats(sum) + begin);
    });
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const int threads_;
  void (*const add_)(int64_t count, const float* a, const float* b, float* sum);
};

class Activation final : public ActivationPrimitive {
 public:
  Activation(const ActivationShape& shape, const Context& context)
      : count_(shape.count),
        threads_(context.threads),
        loops_(context.kernels.activations[static_cast<int>(shape.function)]) {}

  absl::Status Forward(Stream&, const void* x, void* y) override {
    ForEachPart(threads_, count_, kLeastElements, [&](int64_t begin, int64_t end) {
      loops_.forward(end - begin, Floats(x) + begin, Floats(y) + begin);
    });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const void* y, const void* dy, void* dx) override {
    ForEachPart(threads_, count_, kLeastElements, [&](int64_t begin, int64_t end) {
      loops_.backward(end - begin, Floats(y) + begin, Floats(dy) + begin, Floats(dx) + begin);
    });
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const int threads_;
  const ActivationLoops& loops_;
};

}  // namespace

Created<SumShape> Create(const SumShape& shape, const Context& context) {
  TETHYS_RETURN_IF_ERROR(CheckType(shape, ElementType::kFloat32));
  return std::make_unique<Sum>(shape, context);
}

Created<ActivationShape> Create(const ActivationShape& shape, const Context& context) {
  return std::make_unique<Activation>(shape, context);
}

}  // namespace tethys::cpu
