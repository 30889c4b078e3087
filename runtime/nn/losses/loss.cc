#include "runtime/nn/losses/loss.h"

#include "runtime/nn/losses/loss_kinds.h"

namespace tethys {

absl::StatusOr<std::shared_ptr<const Loss>> MakeLoss(const proto::Loss& loss, const Shape& output,
                                                     int64_t classes) {
  for (const LossKind* kind : {&kSoftmaxCrossEntropyLoss, &kMeanSquaredErrorLoss}) {
    if (kind->kind == loss.kind_case()) return kind->make(loss, output, classes);
  }
  return kSoftmaxCrossEntropyLoss.make(loss, output, classes);
}

}  // namespace tethys
