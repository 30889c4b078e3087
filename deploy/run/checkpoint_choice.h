// Finds the checkpoint that the user means by a path. Blocks on files; thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_CHECKPOINT_CHOICE_H_
#define TETHYS_DEPLOY_RUN_CHECKPOINT_CHOICE_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// Returns `path` if it is a checkpoint. If `path` is a run directory, or the folder checkpoints/ of one,
// returns the newest undamaged checkpoint in it. NotFound: `path` contains no checkpoint; the message names
// checkpoints nearby. DataLoss: all checkpoints in `path` are damaged.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_CHECKPOINT_CHOICE_H_
