#include <algorithm>

#include "runtime/base/random.h"
#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class Dropout final : public DropoutPrimitive {
 public:
  Dropout(const DropoutShape& shape, const Kernels& kernels)
      : shape_(shape), key_(RandomKey(shape.seed, RandomPurpose::kDropout)), kernels_(kernels) {}

  absl::Status Run(Stream&, const uint64_t* first_row, const void* in, void* out) override {
    const FlushDenormals flush;
    const int64_t count = shape_.rows * shape_.elements;
    const uint64_t first = *first_row * static_cast<uint64_t>(shape_.elements);
    const float scale = 1 / (1 - shape_.rate);
    float numbers[kBlock];
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t part = std::min(kBlock, count - i);
      kernels_.uniform(key_, shape_.layer, first + i, part, numbers);
      kernels_.keep(part, shape_.rate, scale, numbers, Floats(in) + i, Floats(out) + i);
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

Created<DropoutShape> Create(const DropoutShape& shape, const Context& context) {
  return std::make_unique<Dropout>(shape, context.kernels);
}

}  // namespace tethys::cpu
