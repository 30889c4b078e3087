// The checkpoint that a path given by the user stands for. Blocks on files; thread-compatible.
#ifndef TETHYS_DEPLOY_COMMAND_CHECKPOINT_CHOICE_H_
#define TETHYS_DEPLOY_COMMAND_CHECKPOINT_CHOICE_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// Returns `path` itself if it is a checkpoint, or the newest undamaged one of a run directory or its
// checkpoints/. NotFound: there is none; the message names checkpoints nearby. DataLoss: all are damaged.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_CHECKPOINT_CHOICE_H_
