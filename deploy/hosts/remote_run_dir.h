// The run directory of a chief on another machine. The chief writes to a directory there; before it starts,
// what it needs (the job, and a checkpoint to go on from) is sent, and when it has ended, all it wrote is
// fetched and removed there.
//
// Blocks for as long as data moves; a transfer that stands still for kTransferStall is given up.
// Thread-compatible.
//
// Invariants:
//  1. Results are removed there only after they have been fetched whole.
//  2. From before the directory there has its name until then, RUN_DIR/.remote_run.textproto
//  (proto/remote_run.proto) says
//     where they are, so that they are found again whatever dies and wherever the next chief runs.
#ifndef TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_
#define TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_

#include <functional>
#include <string>

#include "deploy/process/place.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

constexpr Nanoseconds kTransferStall = 120 * kSecond;

// Where the chief at `place` writes, for the run that is kept in `run_dir` here: `run_dir` itself on this
// machine.
std::string ChiefRunDir(const Place& place, const std::string& run_dir);

// Before a fresh run in `run_dir`, which need not exist. FailedPrecondition: the chief's machine still holds
// what an earlier run in a directory of that name saved.
absl::Status CheckNothingLeft(const Place& place, const std::string& run_dir);

// Nothing is done on this machine. FailedPrecondition: as above; nothing is removed or replaced then.
absl::Status SendRunDir(const Place& place, const std::string& run_dir);

// After a run. Nothing is done, either, when the chief's machine has nothing of the run. The error says where
// the files are.
absl::Status FetchRunDir(const Place& place, const std::string& run_dir);

// Before a run goes on: fetches what an earlier attempt left on the machine that its chief ran on, whatever
// machine the next one is to run on, and tells `note` so. `ssh_config` as in SshCall. The error says where
// the files are.
absl::Status FetchLeftRunDir(const std::string& ssh_config, const std::string& run_dir,
                             const std::function<void(const std::string&)>& note);

// "HOST:PATH" of what was not fetched yet; empty: everything was.
std::string UnfetchedAt(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_REMOTE_RUN_DIR_H_
