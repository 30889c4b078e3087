#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class AveragePooling final : public AveragePoolingPrimitive {
 public:
  AveragePooling(const PoolingWindows& windows, const Kernels& kernels)
      : windows_(windows), kernels_(kernels) {}

  absl::Status Forward(Stream&, const void* x, void* y) override {
    const FlushDenormals flush;
    kernels_.average_pool(windows_, Floats(x), Floats(y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const void* dy, void* dx) override {
    const FlushDenormals flush;
    kernels_.average_unpool(windows_, Floats(dy), Floats(dx));
    return absl::OkStatus();
  }

 private:
  const PoolingWindows windows_;
  const Kernels& kernels_;
};

}  // namespace

Created<AveragePoolingShape> Create(const AveragePoolingShape& shape, const Context& context) {
  const Window::Axis &h = shape.window.height, &w = shape.window.width;
  const ImageShape out = shape.output();
  return std::make_unique<AveragePooling>(PoolingWindows{.rows = shape.rows,
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
                                                         .before_w = w.before,
                                                         .count_padding = shape.count_padding},
                                          context.kernels);
}

}  // namespace tethys::cpu
