// A remark on a model that is hardly better than a guess: what to look at first. Pure; any thread.
#ifndef TETHYS_DEPLOY_COMMAND_CHANCE_REMARK_H_
#define TETHYS_DEPLOY_COMMAND_CHANCE_REMARK_H_

#include <cstdint>
#include <string>

#include "proto/summary.pb.h"

namespace tethys {

// A sentence or two on the result of a run among `classes` classes; empty if it is better than a guess, or
// has no accuracy. Data come first; that the learning rate be lowered is said only of a training loss above
// that of a guess, longer training of a run with few updates.
std::string ChanceRemark(const proto::RunSummary& summary, int64_t classes);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_CHANCE_REMARK_H_
