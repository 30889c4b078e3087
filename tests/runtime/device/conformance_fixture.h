// The common fixture of the devices' conformance suites: a device, a stream, and arrays in the device's
// memory. device_conformance.h lists the tests and says how a back end instantiates them.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_CONFORMANCE_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_CONFORMANCE_FIXTURE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/random.h"
#include "runtime/device/device.h"
#include "tests/runtime/device/arithmetic.h"

namespace tethys {

struct DeviceCase {
  std::function<absl::StatusOr<std::unique_ptr<Device>>()> create;
  Arithmetic arithmetic;
  int64_t most_rows = 1024;  // The rows of the tests' largest batch; a slow device sets fewer.
};

class DeviceConformance : public ::testing::TestWithParam<DeviceCase> {
 protected:
  DeviceConformance()
      : arithmetic_(GetParam().arithmetic),
        device_(GetParam().create().value()),
        stream_(device_->CreateStream().value()) {}

  // RandomFloats with few enough bits that activations represent them exactly.
  std::vector<float> RandomActivations(int64_t count, uint64_t key) const {
    return arithmetic_.Stored(RandomFloats(count, key));
  }
  // RandomFloats with few enough bits that the device's products are exact.
  std::vector<float> RandomFactors(int64_t count, uint64_t key) const {
    std::vector<float> values = RandomFloats(count, key);
    for (float& value : values) value = RoundedTo(arithmetic_.factor_bits, value);
    return values;
  }

  // An array in device memory that holds a copy of host values.
  template <typename T>
  class Array {
   public:
    Array(DeviceConformance& test, const std::vector<T>& values)
        : test_(test),
          count_(values.size()),
          buffer_(test.device_->Allocate(count_ * sizeof(T), MemoryKind::kDevice).value()) {
      EXPECT_TRUE(
          test.device_->CopyToDevice(*test.stream_, buffer_->data(), values.data(), count_ * sizeof(T)).ok());
    }
    T* data() { return static_cast<T*>(buffer_->data()); }
    std::vector<T> Host() {
      std::vector<T> values(count_);
      EXPECT_TRUE(test_.device_->CopyToHost(*test_.stream_, values.data(), data(), count_ * sizeof(T)).ok());
      EXPECT_TRUE(test_.stream_->Synchronize().ok());
      return values;
    }

   private:
    DeviceConformance& test_;
    int64_t count_;
    std::unique_ptr<Buffer> buffer_;
  };
  Array<float> Floats(const std::vector<float>& values) { return {*this, values}; }
  Array<float> Poisoned(int64_t count) { return {*this, std::vector<float>(count, kPoison)}; }

  // An array in device memory whose elements have the type `type`. The host sees floats.
  class Values {
   public:
    Values(DeviceConformance& test, ElementType type, const std::vector<float>& values)
        : type_(type), bytes_(test, Encoded(type, values)) {}
    void* data() { return bytes_.data(); }
    std::vector<float> Host() {
      const std::vector<char> bytes = bytes_.Host();
      const int64_t width = BytesOf(type_);
      std::vector<float> values(bytes.size() / width);
      for (size_t i = 0; i < values.size(); ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, &bytes[i * width], width);
        if (type_ == ElementType::kBfloat16) bits <<= 16;
        values[i] = __builtin_bit_cast(float, bits);
      }
      return values;
    }

   private:
    static std::vector<char> Encoded(ElementType type, const std::vector<float>& values) {
      const int64_t width = BytesOf(type);
      std::vector<char> bytes(values.size() * width);
      for (size_t i = 0; i < values.size(); ++i) {
        const bool halved = type == ElementType::kBfloat16;
        const auto bits = __builtin_bit_cast(uint32_t, halved ? RoundedTo(8, values[i]) : values[i]);
        const uint32_t stored = halved ? bits >> 16 : bits;
        std::memcpy(&bytes[i * width], &stored, width);
      }
      return bytes;
    }

    ElementType type_;
    Array<char> bytes_;
  };
  Values Activations(const std::vector<float>& values) { return {*this, device_->activation_type(), values}; }
  Values PoisonedActivations(int64_t count) { return Activations(std::vector<float>(count, kPoison)); }

  // The error of a result near `value` that comes from writing it as an activation.
  double StoredError(double value) const { return std::abs(value) * arithmetic_.StoredTolerance(0); }

  // Checks and computations that several tests share. The header with these tests (dense_conformance.h, ...)
  // defines them.
  void CheckDense(const DenseShape& shape);
  struct Loss {
    LossResult result;
    std::vector<float> doutputs;
    std::vector<int64_t> confusion = {};  // Present if the loss has classes.
  };
  Loss RunLoss(LossPrimitive& primitive, const std::vector<float>& outputs,
               const std::vector<int32_t>& labels, const std::vector<float>& weights, int64_t classes);
  Loss RunSoftmax(const SoftmaxCrossEntropyShape& shape, const std::vector<float>& outputs,
                  const std::vector<int32_t>& labels, const std::vector<float>& weights);
  // Runs the loss with one position in each row.
  Loss RunSoftmax(const std::vector<float>& logits, const std::vector<int32_t>& labels,
                  const std::vector<float>& weights, int64_t classes) {
    return RunSoftmax({.rows = static_cast<int64_t>(labels.size()), .classes = classes}, logits, labels,
                      weights);
  }
  std::vector<std::vector<float>> Updated(UpdateFormula formula, const std::vector<UpdateRegion>& regions,
                                          const std::vector<std::vector<float>>& arenas,
                                          const std::vector<std::vector<float>>& gradients);
  std::vector<float> Drop(const DropoutShape& shape, uint64_t first_row, const std::vector<float>& in);

  static constexpr uint64_t kSeed = 0x123456789abcdef0;

  const Arithmetic arithmetic_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_CONFORMANCE_FIXTURE_H_
