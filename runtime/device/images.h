// Images, windows that slide over images, and the checks of both, for primitives over images
// (image_primitives.h). Pure; any thread.
#ifndef TETHYS_RUNTIME_DEVICE_IMAGES_H_
#define TETHYS_RUNTIME_DEVICE_IMAGES_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/device/axis.h"

namespace tethys {

// The shape of one image. Images are stored as [rows, height, width, channels] (NHWC).
struct ImageShape {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int64_t elements() const { return height * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

// A window that slides over an image. It reaches over extent() pixels and has
// (in + before + after - extent) / stride + 1 positions along an axis, rounded down.
struct Window {
  struct Axis {
    int64_t size = 1;
    int64_t stride = 1;
    // Padding before and after the image, in pixels, each less than extent(). Convolutions read it as zeros.
    int64_t before = 0;
    int64_t after = 0;
    int64_t dilation = 1;  // Pixels from one element of the window to the next; 1 for pooling.
    int64_t extent() const { return (size - 1) * dilation + 1; }
    int64_t Positions(int64_t in) const { return (in + before + after - extent()) / stride + 1; }
    bool operator==(const Axis&) const = default;
  };
  Axis height;
  Axis width;
  bool operator==(const Window&) const = default;
};

// InvalidArgument: padding as large as the window or larger, or a window that is larger than the padded
// image.
inline absl::Status CheckWindow(absl::string_view what, int64_t in, const Window::Axis& axis) {
  TETHYS_RETURN_IF_ERROR(CheckAxis(what, in));
  TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("window, ", what), axis.size));
  TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("stride, ", what), axis.stride));
  TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("dilation, ", what), axis.dilation));
  const int64_t extent = axis.extent();
  const bool padding_fits =
      axis.before >= 0 && axis.before < extent && axis.after >= 0 && axis.after < extent;
  if (padding_fits && extent <= in + axis.before + axis.after) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": a window of ", extent, " pixels does not fit into ",
                                                 in, " pixels padded by ", axis.before, " and ", axis.after,
                                                 "; padding must be in [0, ", extent, ")"));
}

// `what` names the primitive in the message: "a convolution".
inline absl::Status CheckImages(absl::string_view what, int64_t rows, const ImageShape& in,
                                const Window& window) {
  TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("rows of ", what), rows));
  TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("channels of ", what), in.channels));
  TETHYS_RETURN_IF_ERROR(CheckWindow(absl::StrCat("height of ", what), in.height, window.height));
  return CheckWindow(absl::StrCat("width of ", what), in.width, window.width);
}

// Like CheckImages, for pooling, whose windows have no dilation.
inline absl::Status CheckPooling(absl::string_view what, int64_t rows, const ImageShape& in,
                                 const Window& window) {
  TETHYS_RETURN_IF_ERROR(CheckImages(what, rows, in, window));
  if (window.height.dilation == 1 && window.width.dilation == 1) return absl::OkStatus();
  return absl::InvalidArgumentError("pooling has no dilation");
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_IMAGES_H_
