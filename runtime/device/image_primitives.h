// Primitives over images: convolution and pooling. Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace tethys {

class Stream;

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
    int64_t before =
        0;  // Padding, less than extent(). Convolutions read it as zeros; max pooling ignores it.
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

// y = activation(x * filters + bias), where * is the cross-correlation that all frameworks call convolution.
//   x [rows, in], filters [out, window height, window width, in.channels / groups], bias [out],
//   y [rows, positions, out]
// The channels of x and of y are split into `groups` equal parts. Part g of y depends on part g of x only.
struct ConvolutionShape {
  int64_t rows = 0;
  ImageShape in;
  int64_t out = 0;
  Window window;
  bool relu = false;
  int64_t groups = 1;    // Divides in.channels and out.
  bool has_bias = true;  // False: `bias` and `dbias` are null.
  // Elements of one filter, and of all.
  int64_t filter_elements() const { return window.height.size * window.width.size * (in.channels / groups); }
  int64_t filters() const { return out * filter_elements(); }
  ImageShape output() const {
    return {window.height.Positions(in.height), window.width.Positions(in.width), out};
  }
};

// InvalidArgument: groups that do not divide the channels.
inline absl::Status CheckGroups(const ConvolutionShape& shape) {
  const bool divide =
      shape.groups >= 1 && shape.in.channels % shape.groups == 0 && shape.out % shape.groups == 0;
  if (divide) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a convolution of ", shape.in.channels, " to ", shape.out,
                                                 " channels cannot have ", shape.groups, " groups"));
}

// InvalidArgument: windows of pooling have no dilation.
inline absl::Status CheckUndilated(const Window& window) {
  if (window.height.dilation == 1 && window.width.dilation == 1) return absl::OkStatus();
  return absl::InvalidArgumentError("pooling has no dilation");
}

class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const void* x, const float* filters, const float* bias,
                               void* y) = 0;
  // Like DensePrimitive::Backward: with relu, dy is masked in place; dx may be null.
  virtual absl::Status Backward(Stream& stream, const void* x, const float* filters, const void* y, void* dy,
                                void* dx, float* dfilters, float* dbias) = 0;
  // The two parts of Backward, without the mask: dx from dy, and dfilters and dbias from x and dy. A
  // transposed convolution is made of them.
  virtual absl::Status DataGradient(Stream& stream, const float* filters, const void* dy, void* dx) = 0;
  virtual absl::Status FilterGradient(Stream& stream, const void* x, const void* dy, float* dfilters,
                                      float* dbias) = 0;
  // Device memory in bytes that the primitive holds beyond its arguments, without what it shares.
  virtual int64_t workspace_bytes() const = 0;
  virtual std::string Describe() const = 0;
};

// y = the largest element of each window, channel by channel.
struct MaxPoolingShape {
  int64_t rows = 0;
  ImageShape in;
  Window window;
  ImageShape output() const {
    return {window.height.Positions(in.height), window.width.Positions(in.width), in.channels};
  }
};

class MaxPoolingPrimitive {
 public:
  virtual ~MaxPoolingPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const void* x, void* y) = 0;
  // `x` and `y` must be those of a Forward. Each element of dy is the gradient of one largest element of its
  // window. dx is overwritten with the sums of these gradients.
  virtual absl::Status Backward(Stream& stream, const void* x, const void* y, const void* dy, void* dx) = 0;
  virtual int64_t workspace_bytes() const = 0;
};

// y = the mean of each window, channel by channel.
struct AveragePoolingShape {
  int64_t rows = 0;
  ImageShape in;
  Window window;
  // The divisor: all positions of the window, or (false) those that lie in the image.
  bool count_padding = false;
  ImageShape output() const {
    return {window.height.Positions(in.height), window.width.Positions(in.width), in.channels};
  }
};

class AveragePoolingPrimitive {
 public:
  virtual ~AveragePoolingPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const void* x, void* y) = 0;
  // Each element of dy is shared out equally to its window's elements in the image. dx is overwritten.
  virtual absl::Status Backward(Stream& stream, const void* dy, void* dx) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_
