// Max pooling by plain loops. A maximum over a window is taken first over its rows, in a loop over whole rows
// of pixels, and then over its columns. Backward works in the reverse order. It finds the origin of a maximum
// by comparison, so nothing is kept between the passes. oneDNN 2.6 fills its vectors with the channels of one
// pixel; lenet's first pooling has only 6 channels, so oneDNN takes several times as long (docs/design.md).
#include <algorithm>
#include <utility>

#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/tensor/arena.h"

namespace tethys::cpu {
namespace {

class MaxPooling final : public MaxPoolingPrimitive {
 public:
  // `largest` and `moving` must each have the elements of one row of pixels of x for every thread.
  MaxPooling(const MaxPoolingShape& shape, const Context& context, Arena largest, Arena moving)
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
        threads_(context.threads),
        kernels_(context.kernels),
        largest_(std::move(largest)),
        moving_(std::move(moving)) {}

  absl::Status Forward(Stream&, const void* x, void* y) override {
    ForEachPart(threads_, shape_.rows, 1, [&](int64_t begin, int64_t end) {
      float* const largest = Own(largest_, begin);
      for (int64_t row = begin; row < end; ++row) {
        const float* const image = Floats(x) + row * shape_.in.elements();
        float* out = Floats(y) + row * out_.elements();
        for (int64_t position = 0; position < out_.height; ++position, out += out_row_) {
          FindLargestOfRows(RowsOf(position), image, largest);
          kernels_.pool_columns(columns_, largest, out);
        }
      }
    });
    return absl::OkStatus();
  }

  absl::Status Backward(Stream&, const void* x, const void* y, const void* dy, void* dx) override {
    ForEachPart(threads_, shape_.rows, 1, [&](int64_t begin, int64_t end) {
      float *const largest = Own(largest_, begin), *const moving = Own(moving_, begin);
      for (int64_t row = begin; row < end; ++row) {
        const float *out = Floats(y) + row * out_.elements(), *gradient = Floats(dy) + row * out_.elements();
        float* const image_gradient = Floats(dx) + row * shape_.in.elements();
        std::fill_n(image_gradient, shape_.in.elements(), 0.0f);
        for (int64_t position = 0; position < out_.height;
             ++position, out += out_row_, gradient += out_row_) {
          Unpool(RowsOf(position), Floats(x) + row * shape_.in.elements(), out, gradient, image_gradient,
                 largest, moving);
        }
      }
    });
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

  // The memory, within `memory`, of the thread whose part of the batch begins at this row.
  float* Own(Arena& memory, int64_t row) const {
    return memory.data() + row / PartSize(threads_, shape_.rows, 1) * row_;
  }

  void FindLargestOfRows(Rows rows, const float* image, float* largest) const {
    std::copy_n(image + rows.begin * row_, row_, largest);
    for (int64_t h = rows.begin + 1; h < rows.end; ++h) kernels_.maximum(row_, image + h * row_, largest);
  }

  // Backward for one row of outputs: distributes dy first over the columns of each window, then over the
  // rows.
  void Unpool(Rows rows, const float* x, const float* y, const float* dy, float* dx, float* largest,
              float* moving) const {
    FindLargestOfRows(rows, x, largest);
    std::fill_n(moving, row_, 0.0f);
    kernels_.unpool_columns(columns_, largest, y, dy, moving);
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      kernels_.move_where_equal(row_, x + h * row_, largest, moving, dx + h * row_);
    }
  }

  const MaxPoolingShape shape_;
  const ImageShape out_;
  const int64_t row_;      // Elements of a row of pixels of x.
  const int64_t out_row_;  // Elements of a row of pixels of y.
  const WindowColumns columns_;
  const int threads_;
  const Kernels& kernels_;
  Arena largest_;  // [threads, width, channels]: the maximum over a window's rows.
  Arena moving_;   // [threads, width, channels]: gradients of `largest_` not yet added to dx.
};

}  // namespace

Created<MaxPoolingShape> Create(const MaxPoolingShape& shape, const Context& context) {
  const int64_t row = context.threads * shape.in.width * shape.in.channels;
  TETHYS_ASSIGN_OR_RETURN(Arena largest, Arena::Allocate(row));
  TETHYS_ASSIGN_OR_RETURN(Arena moving, Arena::Allocate(row));
  return std::make_unique<MaxPooling>(shape, context, std::move(largest), std::move(moving));
}

}  // namespace tethys::cpu
