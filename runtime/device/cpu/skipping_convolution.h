// Convolutions that skip pixels: a one-pixel window with a stride above 1 reads only some pixels. A primitive
// gathers these pixels and calls oneDNN with stride 1, because oneDNN 2.6 has errors in convolutions that
// skip pixels. On AVX2, with fewer channels than a vector holds, oneDNN writes beyond its scratch memory, and
// hangs on two threads. On AVX-512, oneDNN does the same on several threads.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_SKIPPING_CONVOLUTION_H_
#define TETHYS_RUNTIME_DEVICE_CPU_SKIPPING_CONVOLUTION_H_

#include <memory>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace tethys::cpu {

// True for a window of one pixel (which has no padding) whose stride is above 1 on at least one axis.
bool SkipsPixels(const Window& window);

// The convolution of the gathered pixels, with stride 1. Requires SkipsPixels(shape.window).
ConvolutionShape ShapeOfSeenPixels(ConvolutionShape shape);

// `seen` must have the shape ShapeOfSeenPixels(shape). ResourceExhausted: no memory for the gathered pixels.
absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateSkippingConvolution(
    const ConvolutionShape& shape, int threads, std::unique_ptr<ConvolutionPrimitive> seen);

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_SKIPPING_CONVOLUTION_H_
