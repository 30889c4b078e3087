#include "runtime/nn/layers/window.h"

#include <algorithm>

namespace tethys {
namespace {

// The largest extent of a window, in pixels: so small that no sum overflows.
constexpr int64_t kMaxExtent = int64_t{1} << 40;

absl::StatusOr<Window::Axis> MakeAxis(absl::string_view what, int64_t in, const WindowFields& fields) {
  TETHYS_RETURN_IF_ERROR(CheckPositive("the window's size", fields.size));
  TETHYS_RETURN_IF_ERROR(CheckPositive("stride", fields.stride));
  TETHYS_RETURN_IF_ERROR(CheckPositive("dilation", fields.dilation));
  if (fields.size > kMaxExtent / fields.dilation) {
    return absl::InvalidArgumentError(absl::StrCat("its window of ", fields.size, " with dilation ",
                                                   fields.dilation, " is larger than any image can be"));
  }
  Window::Axis axis = {.size = fields.size, .stride = fields.stride, .dilation = fields.dilation};
  if (fields.pad.has_value()) {
    if (fields.padding == proto::SAME) {
      return absl::InvalidArgumentError("has both pad and padding: SAME; give one of them");
    }
    if (*fields.pad < 0 || *fields.pad >= axis.extent()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pad is ", *fields.pad, "; it must be at least 0 and less than the window of ", axis.extent()));
    }
    axis.before = axis.after = *fields.pad;
  } else if (fields.padding == proto::SAME) {
    const int64_t positions = (in - 1) / axis.stride + 1;
    const int64_t total = std::max<int64_t>(0, (positions - 1) * axis.stride + axis.extent() - in);
    axis.before = total / 2;
    axis.after = total - axis.before;
  }
  if (axis.extent() <= in + axis.before + axis.after) return axis;
  return absl::InvalidArgumentError(
      absl::StrCat("its window of ", axis.extent(), axis.dilation > 1 ? " (with dilation)" : "",
                   " is larger than the ", what, " ", in, " of its input: use a smaller window, or ",
                   fields.pad.has_value() ? "a larger pad" : "padding: SAME"));
}

}  // namespace

absl::Status CheckPositive(absl::string_view what, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", value, "; it must be 1 or more"));
}

absl::StatusOr<Window> MakeWindow(const ImageShape& in, const WindowFields& fields) {
  Window window;
  TETHYS_ASSIGN_OR_RETURN(window.height, MakeAxis("height", in.height, fields));
  TETHYS_ASSIGN_OR_RETURN(window.width, MakeAxis("width", in.width, fields));
  return window;
}

Shape ShapeOf(const ImageShape& image) { return {image.height, image.width, image.channels}; }

std::string ImageText(const ImageShape& image) { return ShapeText(ShapeOf(image)); }

std::string WindowText(const Window& window) {
  return absl::StrCat(window.height.size, " x ", window.width.size, " / ", window.height.stride);
}

}  // namespace tethys
