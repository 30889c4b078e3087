#include "runtime/nn/layers/window.h"

#include <algorithm>

namespace tethys {
namespace {

absl::StatusOr<Window::Axis> MakeAxis(absl::string_view what, int64_t in, int64_t size, int64_t stride,
                                      proto::Padding padding) {
  TETHYS_RETURN_IF_ERROR(CheckPositive("the window's size", size));
  TETHYS_RETURN_IF_ERROR(CheckPositive("stride", stride));
  Window::Axis axis = {.size = size, .stride = stride};
  if (padding == proto::SAME) {
    const int64_t positions = (in - 1) / stride + 1;
    const int64_t total = std::max<int64_t>(0, (positions - 1) * stride + size - in);
    axis.before = total / 2;
    axis.after = total - axis.before;
  } else if (size > in) {
    return absl::InvalidArgumentError(absl::StrCat("its window of ", size, " is larger than the ", what, " ",
                                                   in, " of its input: use a smaller one, or padding: SAME"));
  }
  return axis;
}

}  // namespace

absl::Status CheckPositive(absl::string_view what, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", value, "; it must be 1 or more"));
}

absl::StatusOr<Window> MakeWindow(const ImageShape& in, int64_t size, int64_t stride,
                                  proto::Padding padding) {
  Window window;
  TETHYS_ASSIGN_OR_RETURN(window.height, MakeAxis("height", in.height, size, stride, padding));
  TETHYS_ASSIGN_OR_RETURN(window.width, MakeAxis("width", in.width, size, stride, padding));
  return window;
}

Shape ShapeOf(const ImageShape& image) { return {image.height, image.width, image.channels}; }

std::string ImageText(const ImageShape& image) { return ShapeText(ShapeOf(image)); }

std::string WindowText(const Window& window) {
  return absl::StrCat(window.height.size, " x ", window.width.size, " / ", window.height.stride);
}

}  // namespace tethys
