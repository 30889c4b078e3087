// The shape and the type of the labels of a sample.
#ifndef TETHYS_RUNTIME_TENSOR_LABELS_H_
#define TETHYS_RUNTIME_TENSOR_LABELS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct LabelFormat {
  Shape shape = {};  // Shape of the labels of one sample. Empty: a single label.
  // True: labels are float32 values that the outputs should equal. False: labels are class indices.
  bool targets = false;

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t axis : shape) count *= axis;
    return count;
  }
  bool operator==(const LabelFormat&) const = default;
};

// Labels in words: "a class for each sample", "classes in a map [64, 64]", "float32 targets [2]".
inline std::string LabelText(const LabelFormat& labels) {
  if (labels.targets) return absl::StrCat("float32 targets ", ShapeText(labels.shape));
  if (labels.shape.empty()) return "a class for each sample";
  return absl::StrCat("classes in a map ", ShapeText(labels.shape));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TENSOR_LABELS_H_
