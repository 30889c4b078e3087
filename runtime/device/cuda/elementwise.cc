// Input conversion and bias addition.
#include <utility>
#include <vector>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/device_table.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/input_scaling.h"

namespace tethys::cuda {
namespace {

class InputConversion final : public InputConversionPrimitive {
 public:
  InputConversion(ElementType type, int64_t count, const InputScaling& scaling)
      : type_(type), count_(count), input_type_(scaling.type) {
    static_assert(sizeof(scales_.scale) / sizeof(float) == kMostScaledChannels);
    scales_.channels = static_cast<int>(scaling.channels());
    for (int64_t channel = 0; channel < scaling.channels(); ++channel) {
      scales_.scale[channel] = ScaleOf(scaling, channel);
      scales_.shift[channel] = ShiftOf(scaling, channel);
    }
  }

  absl::Status Run(Stream& stream, const void* in, void* out) override {
    if (input_type_ == ValueType::kFloat) {
      TETHYS_RETURN_IF_CUDA_ERROR(
          ConvertFloats(Handle(stream), type_, count_, scales_, static_cast<const float*>(in), out));
    } else {
      TETHYS_RETURN_IF_CUDA_ERROR(
          ConvertBytes(Handle(stream), type_, count_, scales_, static_cast<const uint8_t*>(in), out));
    }
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const int64_t count_;
  const ValueType input_type_;
  ChannelScales scales_ = {};
};

// Input conversion with a scale and a shift for each feature of a table; the scales and shifts are in device
// memory.
class FeatureConversion final : public InputConversionPrimitive {
 public:
  // `numbers` are [2, features] in device memory: scales, then shifts.
  FeatureConversion(ElementType type, int64_t count, const InputScaling& scaling,
                    std::unique_ptr<Buffer> numbers)
      : type_(type), count_(count), input_type_(scaling.type), numbers_(std::move(numbers)) {
    const auto* scales = static_cast<const float*>(numbers_->data());
    scales_ = {.features = scaling.channels(), .scale = scales, .shift = scales + scaling.channels()};
  }

  absl::Status Run(Stream& stream, const void* in, void* out) override {
    if (input_type_ == ValueType::kFloat) {
      TETHYS_RETURN_IF_CUDA_ERROR(
          ConvertFloats(Handle(stream), type_, count_, scales_, static_cast<const float*>(in), out));
    } else {
      TETHYS_RETURN_IF_CUDA_ERROR(
          ConvertBytes(Handle(stream), type_, count_, scales_, static_cast<const uint8_t*>(in), out));
    }
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const int64_t count_;
  const ValueType input_type_;
  const std::unique_ptr<Buffer> numbers_;
  FeatureScales scales_ = {};
};

class Bias final : public BiasPrimitive {
 public:
  Bias(ElementType type, int64_t rows, int64_t columns, SharedWorkspace& workspace)
      : type_(type), rows_(rows), columns_(columns), workspace_(workspace) {}

  absl::Status Forward(Stream& stream, const float* bias, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(AddBias(Handle(stream), type_, rows_, columns_, /*relu=*/false, bias, y));
    return absl::OkStatus();
  }
  // Without a mask, the kernels only read the gradients.
  absl::Status Backward(Stream& stream, const void* dy, float* dbias) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaskAndSumColumns(Handle(stream), type_, rows_, columns_, nullptr,
                                                  const_cast<void*>(dy), dbias, workspace_.floats()));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const int64_t rows_;
  const int64_t columns_;
  SharedWorkspace& workspace_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(const Libraries& libraries,
                                                                                int64_t count,
                                                                                const InputScaling& scaling) {
  if (scaling.channels() <= kMostScaledChannels) {
    return std::make_unique<InputConversion>(libraries.activations, count, scaling);
  }
  std::vector<float> numbers;
  for (int64_t i = 0; i < scaling.channels(); ++i) numbers.push_back(ScaleOf(scaling, i));
  for (int64_t i = 0; i < scaling.channels(); ++i) numbers.push_back(ShiftOf(scaling, i));
  TETHYS_ASSIGN_OR_RETURN(auto on_device, OnDevice(*libraries.memory, numbers));
  return std::make_unique<FeatureConversion>(libraries.activations, count, scaling, std::move(on_device));
}

Created<BiasShape> Create(const BiasShape& shape, const Libraries& libraries) {
  const int64_t bytes = ColumnSumScratch(shape.rows, shape.columns) * static_cast<int64_t>(sizeof(float));
  TETHYS_RETURN_IF_ERROR(libraries.workspace->Reserve(bytes));
  return std::make_unique<Bias>(libraries.activations, shape.rows, shape.columns, *libraries.workspace);
}

}  // namespace tethys::cuda
