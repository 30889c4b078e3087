// Windows over images, made from the fields of convolution and pooling layers.
#ifndef TETHYS_RUNTIME_NN_LAYERS_WINDOW_H_
#define TETHYS_RUNTIME_NN_LAYERS_WINDOW_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/device/image_primitives.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// InvalidArgument if `value`, the value of the field `what`, is below 1.
absl::Status CheckPositive(absl::string_view what, int64_t value);

// The fields of a square window.
struct WindowFields {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  proto::Padding padding = proto::VALID;
  absl::optional<int64_t> pad = absl::nullopt;  // Padding on all four sides.
};

// A window over `in`, padded by TensorFlow's rule or by `pad` on all sides. InvalidArgument: a size, stride
// or dilation below 1; both a pad and padding SAME; a pad as large as the window; a window larger than the
// padded image.
absl::StatusOr<Window> MakeWindow(const ImageShape& in, const WindowFields& fields);

// `Pooling` is the message of a pooling layer.
template <typename Pooling>
WindowFields PoolingFields(const Pooling& pooling) {
  WindowFields fields = {.size = pooling.size(), .stride = pooling.stride(), .padding = pooling.padding()};
  if (pooling.has_pad()) fields.pad = pooling.pad();
  return fields;
}

// Sets the absent size and stride of a pooling layer.
template <typename Pooling>
void CompleteWindow(Pooling& pooling) {
  if (!pooling.has_size()) pooling.set_size(2);
  if (!pooling.has_stride()) pooling.set_stride(pooling.size());
}

Shape ShapeOf(const ImageShape& image);
std::string ImageText(const ImageShape& image);  // For texts: "[28, 28, 6]".
std::string WindowText(const Window& window);    // Size and stride, for texts: "5 x 5 / 1".

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_WINDOW_H_
