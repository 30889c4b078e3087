#include "runtime/device/cpu/skipping_convolution.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/tensor/arena.h"

namespace tethys::cpu {
namespace {

ImageShape SeenPixels(const ConvolutionShape& shape) {
  const ImageShape output = shape.output();
  return {output.height, output.width, shape.in.channels};
}

// Forward gathers the pixels that the window reads and convolves them with stride 1. Backward writes the
// gradients of these pixels into dx, and writes zeros for the skipped pixels.
class SkippingConvolution final : public ConvolutionPrimitive {
 public:
  SkippingConvolution(const ConvolutionShape& shape, int threads, std::unique_ptr<ConvolutionPrimitive> seen,
                      Arena pixels)
      : shape_(shape), threads_(threads), seen_(std::move(seen)), pixels_(std::move(pixels)) {}

  absl::Status Forward(Stream& stream, const void* x, const float* filters, const float* bias,
                       void* y) override {
    Gather(Floats(x));
    return seen_->Forward(stream, pixels_.data(), filters, bias, y);
  }

  // The gradients of the gathered pixels overwrite the pixels. This is possible because Convolution::Backward
  // computes the filter gradient, which reads the pixels, before these gradients.
  absl::Status Backward(Stream& stream, const void* x, const float* filters, const void* y, void* dy,
                        void* dx, float* dfilters, float* dbias) override {
    Gather(Floats(x));
    TETHYS_RETURN_IF_ERROR(seen_->Backward(stream, pixels_.data(), filters, y, dy,
                                           dx == nullptr ? nullptr : pixels_.data(), dfilters, dbias));
    if (dx != nullptr) Scatter(Floats(dx));
    return absl::OkStatus();
  }
  absl::Status FilterGradient(Stream& stream, const void* x, const void* dy, float* dfilters,
                              float* dbias) override {
    Gather(Floats(x));
    return seen_->FilterGradient(stream, pixels_.data(), dy, dfilters, dbias);
  }
  absl::Status DataGradient(Stream& stream, const float* filters, const void* dy, void* dx) override {
    TETHYS_RETURN_IF_ERROR(seen_->DataGradient(stream, filters, dy, pixels_.data()));
    Scatter(Floats(dx));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return seen_->workspace_bytes() + pixels_.size() * static_cast<int64_t>(sizeof(float));
  }
  std::string Describe() const override { return absl::StrCat("gathered pixels, ", seen_->Describe()); }

 private:
  void Gather(const float* x) {
    ForEachPart(threads_, shape_.rows, 1, [&](int64_t begin, int64_t end) {
      ForEachSeen(begin, end, [this, x](int64_t at, int64_t seen) {
        std::copy_n(x + at, shape_.in.channels, pixels_.data() + seen);
      });
    });
  }
  void Scatter(float* dx) const {
    const int64_t image = shape_.in.elements();
    ForEachPart(threads_, shape_.rows, 1, [&](int64_t begin, int64_t end) {
      std::fill(dx + begin * image, dx + end * image, 0.0f);
      ForEachSeen(begin, end, [this, dx](int64_t at, int64_t seen) {
        std::copy_n(pixels_.data() + seen, shape_.in.channels, dx + at);
      });
    });
  }
  // Calls visit(offset of the pixel in x, its offset among the gathered pixels), both in elements, for the
  // pixels of rows [begin, end) of the batch.
  template <typename Visit>
  void ForEachSeen(int64_t begin, int64_t end, const Visit& visit) const {
    const auto& [height, width, channels] = shape_.in;
    int64_t seen = begin * SeenPixels(shape_).elements();
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t h = 0; h < height; h += shape_.window.height.stride) {
        for (int64_t w = 0; w < width; w += shape_.window.width.stride, seen += channels) {
          visit(((row * height + h) * width + w) * channels, seen);
        }
      }
    }
  }

  const ConvolutionShape shape_;
  const int threads_;
  const std::unique_ptr<ConvolutionPrimitive> seen_;
  Arena pixels_;
};

}  // namespace

bool SkipsPixels(const Window& window) {
  return window.height.size == 1 && window.width.size == 1 &&
         (window.height.stride > 1 || window.width.stride > 1);
}

ConvolutionShape ShapeOfSeenPixels(ConvolutionShape shape) {
  shape.in = SeenPixels(shape);
  shape.window = Window();
  return shape;
}

absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateSkippingConvolution(
    const ConvolutionShape& shape, int threads, std::unique_ptr<ConvolutionPrimitive> seen) {
  TETHYS_ASSIGN_OR_RETURN(Arena pixels, Arena::Allocate(shape.rows * SeenPixels(shape).elements()));
  return std::make_unique<SkippingConvolution>(shape, threads, std::move(seen), std::move(pixels));
}

}  // namespace tethys::cpu
