// Which checkpoint a user means. Blocking on files; thread-compatible.
#ifndef TETHYS_DEPLOY_COMMAND_CHECKPOINT_CHOICE_H_
#define TETHYS_DEPLOY_COMMAND_CHECKPOINT_CHOICE_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// `path` itself where it is a checkpoint; of a run directory, or its checkpoints/, the newest undamaged one.
// NotFound: there is none; the message names those that lie near.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_CHECKPOINT_CHOICE_H_
