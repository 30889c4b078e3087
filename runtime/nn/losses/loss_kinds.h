// The rows of the table of losses in loss.cc. Each loss is one file of this folder.
#ifndef TETHYS_RUNTIME_NN_LOSSES_LOSS_KINDS_H_
#define TETHYS_RUNTIME_NN_LOSSES_LOSS_KINDS_H_

#include "runtime/nn/losses/loss.h"

namespace tethys {

struct LossKind {
  proto::Loss::KindCase kind = proto::Loss::KIND_NOT_SET;
  // Does the work of MakeLoss for a loss of this kind.
  absl::StatusOr<std::shared_ptr<const Loss>> (*make)(const proto::Loss& loss, const Shape& output,
                                                      int64_t classes) = nullptr;
};

extern const LossKind kMeanSquaredErrorLoss, kSoftmaxCrossEntropyLoss;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LOSSES_LOSS_KINDS_H_
