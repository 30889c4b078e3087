// For a model that is hardly better than a guess: advice on what to check first. Pure; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_CHANCE_REMARK_H_
#define TETHYS_DEPLOY_DESCRIBE_CHANCE_REMARK_H_

#include <cstdint>
#include <string>

#include "proto/summary.pb.h"

namespace tethys {

// A sentence or two on the result of a run with `classes` classes; empty if the model is better than a guess,
// or has no accuracy. The first advice is always to look at the data. A lower learning rate is advised only
// if the training loss is above the loss of a guess. Longer training is advised only if the run made few
// updates.
std::string ChanceRemark(const proto::RunSummary& summary, int64_t classes);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_CHANCE_REMARK_H_
