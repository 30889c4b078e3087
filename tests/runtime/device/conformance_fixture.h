// The common fixture of the devices' conformance suites: a device, a stream, and arrays in the device's
// memory. device_conformance.h lists the tests and says how a back end instantiates them.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_CONFORMANCE_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_CONFORMANCE_FIXTURE_H_

#include <cstdint>
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
  int64_t most_rows = 1024;  // Largest batch; less for a slow device.
};

class DeviceConformance : public ::testing::TestWithParam<DeviceCase> {
 protected:
  DeviceConformance()
      : arithmetic_(GetParam().arithmetic),
        device_(GetParam().create().value()),
        stream_(device_->CreateStream().value()) {}

  // RandomFloats with few enough bits that the device's products are exact.
  std::vector<float> RandomFactors(int64_t count, uint64_t key) const {
    std::vector<float> values = RandomFloats(count, key);
    for (float& value : values) value = RoundedTo(arithmetic_.factor_bits, value);
    return values;
  }

  // Device memory that holds a copy of host values.
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

  // Steps that several tests share. The header that has these tests (dense_conformance.h, ...) defines them.
  void CheckDense(const DenseShape& shape);
  struct Loss {
    LossResult result;
    std::vector<float> doutputs;
    std::vector<int64_t> confusion = {};  // If the loss has classes.
  };
  Loss RunLoss(LossPrimitive& primitive, const std::vector<float>& outputs,
               const std::vector<int32_t>& labels, const std::vector<float>& weights, int64_t classes);
  Loss RunSoftmax(const SoftmaxCrossEntropyShape& shape, const std::vector<float>& outputs,
                  const std::vector<int32_t>& labels, const std::vector<float>& weights);
  // One position in each row.
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
