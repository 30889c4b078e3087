// The contract of losses. A loss compares the model's outputs with the labels. Training minimises the loss. A
// loss consists of one file of this folder with a row of the table in loss.cc, and of a message in job.proto.
// If no device has the loss's arithmetic yet, a primitive is added, too (runtime/device/loss_primitives.h).
// Pure; any thread.
#ifndef TETHYS_RUNTIME_NN_LOSSES_LOSS_H_
#define TETHYS_RUNTIME_NN_LOSSES_LOSS_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/tensor/labels.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// A loss for outputs of a known shape. Immutable, thread-safe.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual const LabelFormat& labels() const = 0;
  // The number of classes in the confusion matrix of an evaluation; 0: evaluations have no confusion matrix.
  virtual int64_t confusion_classes() const { return 0; }
  // InvalidArgument: a label of the batch is not valid for this loss; the message says where in the batch.
  virtual absl::Status CheckLabels(absl::Span<const int32_t> labels) const = 0;
  virtual absl::StatusOr<std::unique_ptr<LossPrimitive>> Compile(Device& device, int64_t rows,
                                                                 bool trains) const = 0;
};

// Makes the loss of a model whose last layer gives `output` for a sample; softmax cross-entropy if the job
// names no kind of loss. `classes` is the job's data.classes. InvalidArgument: the loss does not suit the
// outputs; the message does not name the layer.
absl::StatusOr<std::shared_ptr<const Loss>> MakeLoss(const proto::Loss& loss, const Shape& output,
                                                     int64_t classes);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LOSSES_LOSS_H_
