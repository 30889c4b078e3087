// The description of the model in a checkpoint, which a checkpoint holds beside the tensors. The functions
// make a description from a job and compare a description with a job. Pure; any thread.
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

// Checks that the job's model computes the same as the checkpoint's model. FailedPrecondition names the first
// layer that differs. Names and initializers of layers, and whether the layers train, are not compared. A
// checkpoint without a description passes. `path` is for error messages.
absl::Status CheckSameModel(const proto::ModelDescription& saved, const proto::Model& model,
                            const std::string& path);

// Convert the scaling between a message and a value. A message without numbers means mean 0 and deviation 1.
// The message does not contain the type of the inputs; `float_inputs` gives this type.
InputScaling ScalingOf(const proto::InputScaling& message, bool float_inputs);
proto::InputScaling MessageOf(const InputScaling& scaling);

// Checks that the job's inputs have the type and the standardisation with which the checkpoint was trained.
// FailedPrecondition: the type or the standardisation differs; the message gives the values of both sides. A
// checkpoint without a standardisation passes.
absl::Status CheckSameScaling(const proto::ModelDescription& saved, const InputScaling& here,
                              const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_MODEL_DESCRIPTION_H_
