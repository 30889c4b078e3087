// Windows over images, as the fields of convolution and pooling layers give them.
#ifndef TETHYS_RUNTIME_NN_LAYERS_WINDOW_H_
#define TETHYS_RUNTIME_NN_LAYERS_WINDOW_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/device/image_primitives.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// InvalidArgument if `value`, that of the field `what`, is below 1.
absl::Status CheckPositive(absl::string_view what, int64_t value);

// A square window over `in`, padded by TensorFlow's rule. InvalidArgument: a size or stride below 1, or a
// window without padding that is larger than the image.
absl::StatusOr<Window> MakeWindow(const ImageShape& in, int64_t size, int64_t stride, proto::Padding padding);

// Sets the absent size and stride of a pooling layer.
template <typename Pooling>
void CompleteWindow(Pooling& pooling) {
  if (!pooling.has_size()) pooling.set_size(2);
  if (!pooling.has_stride()) pooling.set_stride(pooling.size());
}

Shape ShapeOf(const ImageShape& image);
std::string ImageText(const ImageShape& image);  // "[28, 28, 6]"
std::string WindowText(const Window& window);    // "5 x 5 / 1": size and stride.

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_WINDOW_H_
