// Max pooling by plain loops. A maximum over a window is taken first over its rows, in a loop over whole rows
// of pixels, and then over its columns. Backward reverses this and finds the origin of a maximum by
// comparison, so nothing is kept between the passes. oneDNN 2.6 fills its vectors with the channels of one
// pixel; lenet's first pooling has only 6 channels, so oneDNN takes several times as long (docs/design.md).
#include <algorithm>
#include <utility>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/tensor/arena.h"

namespace tethys::cpu {
namespace {

class MaxPooling final : public MaxPoolingPrimitive {
 public:
  // `largest` and `moving` hold a row of pixels each.
  MaxPooling(const MaxPoolingShape& shape, const Kernels& kernels, Arena largest, Arena moving)
      : shape_(shape),
        out_(shape.output()),
        row_(shape.in.width * shape.in.channels),
        out_row_(out_.width * out_.channels),
        columns_{.width = shape.in.width,
                 .channels = shape.in.channels,
                 .positions = out_.width,
                 .size = shape.window.width.size,
                 .stride = shape.window.width.stride,
                 .before = shape.window.width.before},
        kernels_(kernels),
        largest_(std::move(largest)),
        moving_(std::move(moving)) {}

  absl::Status Forward(Stream&, const void* x, void* y) override {
    const FlushDenormals flush;
    const float* image = Floats(x);
    float* out = Floats(y);
    for (int64_t row = 0; row < shape_.rows; ++row, image += shape_.in.elements()) {
      for (int64_t position = 0; position < out_.height; ++position, out += out_row_) {
        kernels_.pool_columns(columns_, LargestOfRows(RowsOf(position), image), out);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Backward(Stream&, const void* x, const void* y, const void* dy, void* dx) override {
    const FlushDenormals flush;
    const float *image = Floats(x), *out = Floats(y), *gradient = Floats(dy);
    float* image_gradient = Floats(dx);
    for (int64_t row = 0; row < shape_.rows; ++row, image += shape_.in.elements()) {
      std::fill_n(image_gradient, shape_.in.elements(), 0.0f);
      for (int64_t position = 0; position < out_.height; ++position, out += out_row_, gradient += out_row_) {
        Unpool(RowsOf(position), image, out, gradient, image_gradient);
      }
      image_gradient += shape_.in.elements();
    }
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return (largest_.size() + moving_.size()) * static_cast<int64_t>(sizeof(float));
  }

 private:
  struct Rows {
    int64_t begin, end;
  };
  Rows RowsOf(int64_t position) const {
    const Window::Axis& axis = shape_.window.height;
    const int64_t begin = position * axis.stride - axis.before;
    return {std::max<int64_t>(begin, 0), std::min(begin + axis.size, shape_.in.height)};
  }

  const float* LargestOfRows(Rows rows, const float* image) {
    std::copy_n(image + rows.begin * row_, row_, largest_.data());
    for (int64_t h = rows.begin + 1; h < rows.end; ++h) {
      kernels_.maximum(row_, image + h * row_, largest_.data());
    }
    return largest_.data();
  }

  // Backward for one row of outputs: distributes dy first over the columns of each window, then over the
  // rows.
  void Unpool(Rows rows, const float* x, const float* y, const float* dy, float* dx) {
    const float* largest = LargestOfRows(rows, x);
    std::fill_n(moving_.data(), row_, 0.0f);
    kernels_.unpool_columns(columns_, largest, y, dy, moving_.data());
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      kernels_.move_where_equal(row_, x + h * row_, largest, moving_.data(), dx + h * row_);
    }
  }

  const MaxPoolingShape shape_;
  const ImageShape out_;
  const int64_t row_;      // Elements of a row of pixels of x.
  const int64_t out_row_;  // Elements of a row of pixels of y.
  const WindowColumns columns_;
  const Kernels& kernels_;
  Arena largest_;  // [width, channels]: the maximum over a window's rows.
  Arena moving_;   // [width, channels]: gradients of `largest_` not yet added to dx.
};

}  // namespace

Created<MaxPoolingShape> Create(const MaxPoolingShape& shape, const Context& context) {
  const int64_t row = shape.in.width * shape.in.channels;
  TETHYS_ASSIGN_OR_RETURN(Arena largest, Arena::Allocate(row));
  TETHYS_ASSIGN_OR_RETURN(Arena moving, Arena::Allocate(row));
  return std::make_unique<MaxPooling>(shape, context.kernels, std::move(largest), std::move(moving));
}

}  // namespace tethys::cpu
