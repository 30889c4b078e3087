// Input conversion and bias.
#include <algorithm>
#include <vector>

#include "runtime/device/cpu/primitives.h"
#include "runtime/device/input_scaling.h"

namespace tethys::cpu {
namespace {

class InputConversion final : public InputConversionPrimitive {
 public:
  InputConversion(int64_t count, const InputScaling& scaling, const Kernels& kernels)
      : count_(count), type_(scaling.type), kernels_(kernels) {
    const int64_t channels = scaling.channels();
    const int64_t pixels = channels == 1                     ? 1
                           : channels <= kMostScaledChannels ? kPixels
                                                             : std::max<int64_t>(1, kValues / channels);
    const int64_t period = channels * pixels;
    for (int64_t i = 0; i < period; ++i) {
      scales_.push_back(ScaleOf(scaling, i % scaling.channels()));
      shifts_.push_back(ShiftOf(scaling, i % scaling.channels()));
    }
  }

  absl::Status Run(Stream&, const void* in, void* out) override {
    if (type_ == ValueType::kFloat) {
      Convert(kernels_.convert_floats, kernels_.convert_float_channels, static_cast<const float*>(in),
              Floats(out));
    } else {
      Convert(kernels_.convert_bytes, kernels_.convert_channels, static_cast<const uint8_t*>(in),
              Floats(out));
    }
    return absl::OkStatus();
  }

 private:
  // Calls `one`, the loop for a single scale and shift, or `channels`, the loop for scales and shifts that
  // differ between channels.
  template <typename One, typename Channels, typename T>
  void Convert(One one, Channels channels, const T* in, float* out) const {
    const auto period = static_cast<int64_t>(scales_.size());
    if (period == 1) {
      one(count_, scales_[0], shifts_[0], in, out);
    } else {
      channels(count_, period, scales_.data(), shifts_.data(), in, out);
    }
  }

  // scales_ and shifts_ repeat the numbers of several channels for kPixels pixels, so that the inner loop of
  // the conversion is long enough to be vectorised. If the data are a table, scales_ and shifts_ repeat the
  // numbers of the table's features for about kValues values.
  static constexpr int64_t kPixels = 64, kValues = 1024;
  const int64_t count_;
  const ValueType type_;
  std::vector<float> scales_, shifts_;
  const Kernels& kernels_;
};

class Bias final : public BiasPrimitive {
 public:
  Bias(int64_t rows, int64_t columns) : rows_(rows), columns_(columns), sums_(columns) {}

  absl::Status Forward(Stream&, const float* bias, void* y) override {
    float* const values = Floats(y);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t c = 0; c < columns_; ++c) values[row * columns_ + c] += bias[c];
    }
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const void* dy, float* dbias) override {
    const float* const gradients = Floats(dy);
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t c = 0; c < columns_; ++c) sums_[c] += gradients[row * columns_ + c];
    }
    std::copy(sums_.begin(), sums_.end(), dbias);
    return absl::OkStatus();
  }

 private:
  const int64_t rows_;
  const int64_t columns_;
  std::vector<double> sums_;
};

}  // namespace

std::unique_ptr<InputConversionPrimitive> CreateInputConversion(int64_t count, const InputScaling& scaling,
                                                                const Kernels& kernels) {
  return std::make_unique<InputConversion>(count, scaling, kernels);
}

Created<BiasShape> Create(const BiasShape& shape, const Context&) {
  return std::make_unique<Bias>(shape.rows, shape.columns);
}

}  // namespace tethys::cpu
