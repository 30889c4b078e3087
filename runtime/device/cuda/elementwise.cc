// Input conversion, bias, pooling, sums, activations, and dropout: our own kernels.
#include <utility>

#include "runtime/base/random.h"
#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/input_scaling.h"

namespace tethys::cuda {
namespace {

// `Shape` is MaxPoolingShape or AveragePoolingShape.
template <typename Shape>
PoolingArguments ArgumentsOf(const Shape& shape) {
  const Window::Axis& h = shape.window.height;
  const Window::Axis& w = shape.window.width;
  const ImageShape out = shape.output();
  return {.rows = shape.rows,
          .height = shape.in.height,
          .width = shape.in.width,
          .channels = shape.in.channels,
          .out_height = out.height,
          .out_width = out.width,
          .size_h = h.size,
          .size_w = w.size,
          .stride_h = h.stride,
          .stride_w = w.stride,
          .before_h = h.before,
          .before_w = w.before};
}

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

class MaxPooling final : public MaxPoolingPrimitive {
 public:
  MaxPooling(ElementType type, const PoolingArguments& arguments) : type_(type), arguments_(arguments) {}

  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaxPoolingForward(Handle(stream), type_, arguments_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* x, const void* y, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaxPoolingBackward(Handle(stream), type_, arguments_, x, y, dy, dx));
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return 0; }

 private:
  const ElementType type_;
  const PoolingArguments arguments_;
};

class AveragePooling final : public AveragePoolingPrimitive {
 public:
  AveragePooling(ElementType type, const PoolingArguments& arguments, bool count_padding)
      : type_(type), arguments_(arguments), count_padding_(count_padding) {}

  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        AveragePoolingForward(Handle(stream), type_, arguments_, count_padding_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        AveragePoolingBackward(Handle(stream), type_, arguments_, count_padding_, dy, dx));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const PoolingArguments arguments_;
  const bool count_padding_;
};

class Sum final : public SumPrimitive {
 public:
  explicit Sum(const SumShape& shape) : shape_(shape) {}

  absl::Status Run(Stream& stream, const void* a, const void* b, void* sum) override {
    TETHYS_RETURN_IF_CUDA_ERROR(Add(Handle(stream), shape_, a, b, sum));
    return absl::OkStatus();
  }

 private:
  const SumShape shape_;
};

class Bias final : public BiasPrimitive {
 public:
  Bias(ElementType type, int64_t rows, int64_t columns, SharedWorkspace& workspace)
      : type_(type), rows_(rows), columns_(columns), workspace_(workspace) {}

  absl::Status Forward(Stream& stream, const float* bias, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(AddBias(Handle(stream), type_, rows_, columns_, /*relu=*/false, bias, y));
    return absl::OkStatus();
  }
  // Without a mask, the gradients are only read.
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

class Activation final : public ActivationPrimitive {
 public:
  Activation(ElementType type, int64_t count, ActivationFunction function)
      : type_(type), count_(count), function_(function) {}

  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(Activate(Handle(stream), type_, function_, count_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* y, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(ActivateBackward(Handle(stream), type_, function_, count_, y, dy, dx));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const int64_t count_;
  const ActivationFunction function_;
};

class Dropout final : public DropoutPrimitive {
 public:
  Dropout(ElementType type, const DropoutShape& shape)
      : type_(type), shape_(shape), key_(RandomKey(shape.seed, RandomPurpose::kDropout)) {}

  absl::Status Run(Stream& stream, const uint64_t* first_row, const void* in, void* out) override {
    TETHYS_RETURN_IF_CUDA_ERROR(Drop(Handle(stream), type_, shape_, key_, first_row, in, out));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const DropoutShape shape_;
  const PhiloxKey key_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(ElementType type,
                                                                                int64_t count,
                                                                                const InputScaling& scaling) {
  return std::make_unique<InputConversion>(type, count, scaling);
}

Created<MaxPoolingShape> Create(const MaxPoolingShape& shape, const Libraries& libraries) {
  return std::make_unique<MaxPooling>(libraries.activations, ArgumentsOf(shape));
}

Created<AveragePoolingShape> Create(const AveragePoolingShape& shape, const Libraries& libraries) {
  return std::make_unique<AveragePooling>(libraries.activations, ArgumentsOf(shape), shape.count_padding);
}

Created<SumShape> Create(const SumShape& shape, const Libraries& libraries) {
  TETHYS_RETURN_IF_ERROR(CheckType(shape, libraries.activations));
  return std::make_unique<Sum>(shape);
}

Created<BiasShape> Create(const BiasShape& shape, const Libraries& libraries) {
  const int64_t bytes = ColumnSumScratch(shape.rows, shape.columns) * static_cast<int64_t>(sizeof(float));
  TETHYS_RETURN_IF_ERROR(libraries.workspace->Reserve(bytes));
  return std::make_unique<Bias>(libraries.activations, shape.rows, shape.columns, *libraries.workspace);
}

Created<ActivationShape> Create(const ActivationShape& shape, const Libraries& libraries) {
  return std::make_unique<Activation>(libraries.activations, shape.count, shape.function);
}

Created<DropoutShape> Create(const DropoutShape& shape, const Libraries& libraries) {
  return std::make_unique<Dropout>(libraries.activations, shape);
}

}  // namespace tethys::cuda
