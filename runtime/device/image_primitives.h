// Primitives over images: convolution and pooling. Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_

#include <cstdint>
#include <string>

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

// A window that slides over an image. It has (in + before + after - size) / stride + 1 positions along an
// axis, rounded down.
struct Window {
  struct Axis {
    int64_t size = 1;
    int64_t stride = 1;
    int64_t before = 0;  // Padding, less than size. Convolutions read it as zeros; max pooling ignores it.
    int64_t after = 0;
    int64_t Positions(int64_t in) const { return (in + before + after - size) / stride + 1; }
    bool operator==(const Axis&) const = default;
  };
  Axis height;
  Axis width;
  bool operator==(const Window&) const = default;
};

// y = activation(x * filters + bias), where * is the cross-correlation that all frameworks call convolution.
//   x [rows, in], filters [out, window height, window width, in.channels], bias [out],
//   y [rows, positions, out]
struct ConvolutionShape {
  int64_t rows = 0;
  ImageShape in;
  int64_t out = 0;
  Window window;
  bool relu = false;
  ImageShape output() const {
    return {window.height.Positions(in.height), window.width.Positions(in.width), out};
  }
};

class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const float* x, const float* filters, const float* bias,
                               float* y) = 0;
  // Like DensePrimitive::Backward: with relu, dy is masked in place; dx may be null.
  virtual absl::Status Backward(Stream& stream, const float* x, const float* filters, const float* y,
                                float* dy, float* dx, float* dfilters, float* dbias) = 0;
  // Device memory in bytes that the primitive holds beyond its arguments.
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
  virtual absl::Status Forward(Stream& stream, const float* x, float* y) = 0;
  // `x` and `y` must be those of a Forward. Each element of dy is the gradient of one largest element of its
  // window. dx is overwritten with the sums of these gradients.
  virtual absl::Status Backward(Stream& stream, const float* x, const float* y, const float* dy,
                                float* dx) = 0;
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
  virtual absl::Status Forward(Stream& stream, const float* x, float* y) = 0;
  // Each element of dy is shared out equally to its window's elements in the image. dx is overwritten.
  virtual absl::Status Backward(Stream& stream, const float* dy, float* dx) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_
