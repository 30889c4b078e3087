// The run directory of a chief on another machine. The chief writes to a directory there. Before it starts,
// its input (the job, and a checkpoint to resume from) is sent; after it has ended, its output is fetched and
// removed there.
//
// Blocks for as long as data moves; a transfer in which no byte moves for kTransferStall fails.
// Thread-compatible.
//
// Invariants:
//  1. Results are removed there only after they have been fetched completely.
//  2. RUN_DIR/.remote_run.textproto (proto/remote_run.proto) says where they are, from before the directory
//     there has its name until they are removed. They are found again whichever process dies, and on
//     whichever machine the next chief runs.
#ifndef TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_
#define TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_

#include <functional>
#include <string>

#include "deploy/process/place.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

constexpr Nanoseconds kTransferStall = 120 * kSecond;

// The directory to which the chief at `place` writes for a run in `run_dir` here: `run_dir` itself on this
// machine.
std::string ChiefRunDir(const Place& place, const std::string& run_dir);

// Called before a fresh run in `run_dir`, which need not exist. FailedPrecondition: the chief's machine still
// holds results of an earlier run in a directory of that name.
absl::Status CheckNothingLeft(const Place& place, const std::string& run_dir);

// Sends `run_dir` to the chief's machine; no-op if that is this one. FailedPrecondition: as above; nothing is
// removed or replaced then.
absl::Status SendRunDir(const Place& place, const std::string& run_dir);

// Called after a run; no-op on this machine, or if the chief's has no files of the run. The error says where
// the files are.
absl::Status FetchRunDir(const Place& place, const std::string& run_dir);

// Called before a run is resumed. Fetches the files that an earlier attempt left on its chief's machine,
// independent of the next chief's machine, and calls `note` with a line about it. `ssh_config` as in SshCall.
// The error says where the files are.
absl::Status FetchLeftRunDir(const std::string& ssh_config, const std::string& run_dir,
                             const std::function<void(const std::string&)>& note);

// "HOST:PATH" of results not fetched yet; empty if there are none.
std::string UnfetchedAt(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_
