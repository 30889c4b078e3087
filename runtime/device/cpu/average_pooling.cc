#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"

namespace tethys::cpu {
namespace {

class AveragePooling final : public AveragePoolingPrimitive {
 public:
  AveragePooling(const PoolingWindows& windows, const Context& context)
      : windows_(windows), threads_(context.threads), kernels_(context.kernels) {}

  absl::Status Forward(Stream&, const void* x, void* y) override {
    ForEachPart(threads_, windows_.rows, 1, [&](int64_t begin, int64_t end) {
      kernels_.average_pool(Rows(begin, end), Floats(x) + begin * in(), Floats(y) + begin * out());
    });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream&, const void* dy, void* dx) override {
    ForEachPart(threads_, windows_.rows, 1, [&](int64_t begin, int64_t end) {
      kernels_.average_unpool(Rows(begin, end), Floats(dy) + begin * out(), Floats(dx) + begin * in());
    });
    return absl::OkStatus();
  }

 private:
  PoolingWindows Rows(int64_t begin, int64_t end) const {
    PoolingWindows windows = windows_;
    windows.rows = end - begin;
    return windows;
  }
  // The number of elements of an image.
  int64_t in() const { return windows_.height * windows_.width * windows_.channels; }
  int64_t out() const { return windows_.out_height * windows_.out_width * windows_.channels; }

  const PoolingWindows windows_;
  const int threads_;
  const Kernels& kernels_;
};

}  // namespace

Created<AveragePoolingShape> Create(const AveragePoolingShape& shape, const Context& context) {
  return std::make_unique<AveragePooling>(WindowsOf(shape, shape.count_padding), context);
}

}  // namespace tethys::cpu
