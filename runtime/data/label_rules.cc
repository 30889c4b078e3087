#include "runtime/data/label_rules.h"

namespace tethys {

std::string LabelRules::OutsideText() const {
  return absl::StrCat("outside the ", classes, " classes of data.classes (0 to ", classes - 1, ")");
}

absl::Status LabelRules::CheckTakeClasses(absl::string_view source) const {
  if (!targets) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source,
                   " has classes, but model.loss is the mean squared error, which takes float32 targets: "
                   "write softmax_cross_entropy {}"));
}

}  // namespace tethys
