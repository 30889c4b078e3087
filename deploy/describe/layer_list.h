// The list of a model's layers, printed by `tethys plan --layers`. Pure; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_LAYER_LIST_H_
#define TETHYS_DEPLOY_DESCRIBE_LAYER_LIST_H_

#include <string>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The model as text of a job file, with all defaults. A comment above each layer has the shape of the layer's
// output, the number of its parameters, and the number of its multiply-adds for a sample in the forward pass.
// The last line has the sums of both numbers.
absl::StatusOr<std::string> LayerList(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_LAYER_LIST_H_
