// Primitives over images: convolution and pooling. Contract: device.h.
#ifndef TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/device/images.h"

namespace tethys {

class Stream;

// y = activation(x * filters + bias), where * is the cross-correlation that all frameworks call convolution.
//   x [rows, in], filters [out, window height, window width, in.channels / groups], bias [out],
//   y [rows, positions, out]
// The channels of x and of y are split into `groups` equal parts. Part g of y depends on part g of x only.
struct ConvolutionShape {
  using Primitive = class ConvolutionPrimitive;
  int64_t rows = 0;
  ImageShape in;
  int64_t out = 0;
  Window window;
  bool relu = false;
  int64_t groups = 1;    // Must divide in.channels and out.
  bool has_bias = true;  // False: `bias` and `dbias` are null.
  // Elements of one filter, and of all filters.
  int64_t filter_elements() const { return window.height.size * window.width.size * (in.channels / groups); }
  int64_t filters() const { return out * filter_elements(); }
  ImageShape output() const {
    return {window.height.Positions(in.height), window.width.Positions(in.width), out};
  }
};

// InvalidArgument: meaningless images or filters, or groups that do not divide the channels.
inline absl::Status CheckShape(const ConvolutionShape& shape) {
  TETHYS_RETURN_IF_ERROR(CheckImages("a convolution", shape.rows, shape.in, shape.window));
  TETHYS_RETURN_IF_ERROR(CheckAxis("filters of a convolution", shape.out));
  const bool divide =
      shape.groups >= 1 && shape.in.channels % shape.groups == 0 && shape.out % shape.groups == 0;
  if (divide) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a convolution of ", shape.in.channels, " to ", shape.out,
                                                 " channels cannot have ", shape.groups, " groups"));
}

class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const void* x, const float* filters, const float* bias,
                               void* y) = 0;
  // Like DensePrimitive::Backward: with relu, first sets dy to 0, in place, where y is not positive. dx may
  // be null.
  virtual absl::Status Backward(Stream& stream, const void* x, const float* filters, const void* y, void* dy,
                                void* dx, float* dfilters, float* dbias) = 0;
  // The two parts of Backward, without the mask: dx from dy, and dfilters and dbias from x and dy. A
  // transposed convolution is made of these two functions.
  virtual absl::Status DataGradient(Stream& stream, const float* filters, const void* dy, void* dx) = 0;
  virtual absl::Status FilterGradient(Stream& stream, const void* x, const void* dy, float* dfilters,
                                      float* dbias) = 0;
  // Device memory in bytes that the primitive holds beyond its arguments and beyond the memory that it shares
  // with other primitives.
  virtual int64_t workspace_bytes() const = 0;
  virtual std::string Describe() const = 0;
};

// y = the largest element of each window, channel by channel. Padding never counts as the largest.
struct MaxPoolingShape {
  using Primitive = class MaxPoolingPrimitive;
  int64_t rows = 0;
  ImageShape in;
  Window window;
  ImageShape output() const {
    return {window.height.Positions(in.height), window.width.Positions(in.width), in.channels};
  }
};

inline absl::Status CheckShape(const MaxPoolingShape& shape) {
  return CheckPooling("max pooling", shape.rows, shape.in, shape.window);
}

class MaxPoolingPrimitive {
 public:
  virtual ~MaxPoolingPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const void* x, void* y) = 0;
  // `x` and `y` must be the arrays of an earlier Forward. Each element of dy is the gradient of one largest
  // element of its window. dx is overwritten with the sums of these gradients.
  virtual absl::Status Backward(Stream& stream, const void* x, const void* y, const void* dy, void* dx) = 0;
  virtual int64_t workspace_bytes() const = 0;
};

// y = the mean of each window, channel by channel.
struct AveragePoolingShape {
  using Primitive = class AveragePoolingPrimitive;
  int64_t rows = 0;
  ImageShape in;
  Window window;
  // True: divide by the number of all pixels of the window; false: divide by the number of those pixels of
  // the window that lie in the image.
  bool count_padding = false;
  ImageShape output() const {
    return {window.height.Positions(in.height), window.width.Positions(in.width), in.channels};
  }
};

inline absl::Status CheckShape(const AveragePoolingShape& shape) {
  return CheckPooling("average pooling", shape.rows, shape.in, shape.window);
}

class AveragePoolingPrimitive {
 public:
  virtual ~AveragePoolingPrimitive() = default;
  virtual absl::Status Forward(Stream& stream, const void* x, void* y) = 0;
  // Each element of dy is shared out equally to its window's elements in the image. dx is overwritten.
  virtual absl::Status Backward(Stream& stream, const void* dy, void* dx) = 0;
};

// The shapes of this header, for the table in primitive_factory.h.
#define TETHYS_IMAGE_PRIMITIVES(ROW) \
  ROW(ConvolutionShape)              \
  ROW(MaxPoolingShape)               \
  ROW(AveragePoolingShape)

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_IMAGE_PRIMITIVES_H_
