// The run directory of a chief on another machine. The chief writes to a directory there; before it starts,
// what it needs (the job, and a checkpoint to go on from) is sent, and when it has ended, all it wrote is
// fetched and removed there. Blocks for as long as the files take; thread-compatible.
#ifndef TETHYS_DEPLOY_REMOTE_RUN_DIR_H_
#define TETHYS_DEPLOY_REMOTE_RUN_DIR_H_

#include <string>

#include "deploy/place.h"
#include "runtime/base/status.h"

namespace tethys {

// Where the chief at `place` writes, for the run that is kept in `run_dir` here: `run_dir` itself on this
// machine.
std::string ChiefRunDir(const Place& place, const std::string& run_dir);

// Nothing is done on this machine.
absl::Status SendRunDir(const Place& place, const std::string& run_dir);
// Nothing is done, either, when the chief's machine has nothing of the run. The error says where the files
// are.
absl::Status FetchRunDir(const Place& place, const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REMOTE_RUN_DIR_H_
