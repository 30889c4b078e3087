// Elementwise operations: input conversion and random numbers.
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class InputConversion final : public InputConversionPrimitive {
 public:
  // Computes (x / 255 - mean) / deviation as one multiplication and one addition.
  InputConversion(int64_t count, float mean, float deviation, const Kernels& kernels)
      : count_(count),
        scale_(static_cast<float>(1.0 / (255.0 * deviation))),
        shift_(static_cast<float>(-static_cast<double>(mean) / deviation)),
        kernels_(kernels) {}

  absl::Status Run(Stream&, const uint8_t* in, float* out) override {
    kernels_.convert_bytes(count_, scale_, shift_, in, out);
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const float scale_;
  const float shift_;
  const Kernels& kernels_;
};

class Uniform final : public UniformPrimitive {
 public:
  Uniform(int64_t count, PhiloxKey key, const Kernels& kernels)
      : count_(count), key_(key), kernels_(kernels) {}

  absl::Status Run(Stream&, const RandomPosition* position, float* out) override {
    kernels_.uniform(key_, position->step, position->first, count_, out);
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const PhiloxKey key_;
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<InputConversionPrimitive> CreateInputConversion(int64_t count, float mean, float deviation,
                                                                const Kernels& kernels) {
  return std::make_unique<InputConversion>(count, mean, deviation, kernels);
}

std::unique_ptr<UniformPrimitive> CreateUniform(int64_t count, PhiloxKey key, const Kernels& kernels) {
  return std::make_unique<Uniform>(count, key, kernels);
}

}  // namespace tethys::cpu
