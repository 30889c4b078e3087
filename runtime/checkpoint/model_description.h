// A checkpoint's description of its model (beside the tensors): made from a job, and compared with one. Pure;
// any thread.
#ifndef TETHYS_RUNTIME_CHECKPOINT_MODEL_DESCRIPTION_H_
#define TETHYS_RUNTIME_CHECKPOINT_MODEL_DESCRIPTION_H_

#include <string>

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/status.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// The data that another program needs to use a checkpoint without the job.
proto::ModelDescription DescribeModel(const proto::JobPlan& plan, const proto::InputScaling& scaling);

// FailedPrecondition names the first layer that computes something else than the checkpoint's layer. Names
// and initializers of layers, and whether they train, are not compared. A checkpoint without a description
// passes. `path` is for error messages.
absl::Status CheckSameModel(const proto::ModelDescription& saved, const proto::Model& model,
                            const std::string& path);

// Convert the scaling between a message and a value. A message without numbers means mean 0 and deviation 1.
// The message does not contain the type of the inputs, which `float_inputs` gives.
InputScaling ScalingOf(const proto::InputScaling& message, bool float_inputs);
proto::InputScaling MessageOf(const InputScaling& scaling);

// FailedPrecondition: the checkpoint's inputs were of the other type, or standardised with another mean or
// deviation, because data or job differ.
absl::Status CheckSameScaling(const proto::ModelDescription& saved, const InputScaling& here,
                              const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_MODEL_DESCRIPTION_H_
