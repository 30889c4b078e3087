// The run directory of a chief on another machine. The chief writes to a directory on its own machine. Before
// the chief starts, its input (the job, and a checkpoint to resume from) is sent to this directory. After the
// chief has ended, its output is fetched from this directory, and the directory is removed.
//
// Blocks for as long as data moves; a transfer in which no byte moves for kTransferStall fails.
// Thread-compatible.
//
// Invariants:
//  1. Results are removed on the chief's machine only after they have been fetched completely.
//  2. RUN_DIR/.remote_run.textproto (proto/remote_run.proto), on this machine, names the chief's machine and
//     the directory on that machine. The file is written before the directory gets its final name, and is
//     removed after the directory. So results are found again even if a process dies at any time or the next
//     chief runs on another machine.
#ifndef TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_
#define TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_

#include <functional>
#include <string>

#include "deploy/process/place.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

constexpr Nanoseconds kTransferStall = 120 * kSecond;

// The directory to which the chief at `place` writes for a run in `run_dir` on this machine. If the chief
// runs on this machine, it is `run_dir` itself.
std::string ChiefRunDir(const Place& place, const std::string& run_dir);

// Checks, before a new run in `run_dir` (which need not exist), that the chief's machine has no results of an
// earlier run. FailedPrecondition: it still has results of an earlier run in the same `run_dir`.
absl::Status CheckNothingLeft(const Place& place, const std::string& run_dir);

// Sends `run_dir` to the chief's machine; does nothing if this is the chief's machine. FailedPrecondition: as
// in CheckNothingLeft; nothing is then removed or replaced.
absl::Status SendRunDir(const Place& place, const std::string& run_dir);

// Called after a run. Fetches the chief's files into `run_dir`; no-op if the chief ran on this machine, or if
// its machine has no files of the run. The error says where the files are.
//
// Call it while an InterruptsHeld (deploy/process/signal_source.h) lives. The first interrupt makes the fetch
// begin anew, because the user may have wanted to end the run, which has just ended by itself; `note` is
// called with a line that says so. The second interrupt ends the fetch. Interrupts stay pending.
absl::Status FetchRunDir(const Place& place, const std::string& run_dir,
                         const std::function<void(const std::string&)>& note);

// Called before a run is resumed. Fetches the files that an earlier attempt left on its chief's machine, and
// calls `note` with a line about the fetch. The next chief may run on another machine. No-op if no files were
// left. `ssh_config` as in SshCall. The error says where the files are.
absl::Status FetchLeftRunDir(const std::string& ssh_config, const std::string& run_dir,
                             const std::function<void(const std::string&)>& note);

// "HOST:PATH" of results that were not fetched yet; empty if all were fetched.
std::string UnfetchedAt(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_
