// The process that holds the lock of a file, according to the kernel. Used for runs of older launchers, which
// do not write their name into the lock file. Blocks on small files of /proc; any thread.
#ifndef TETHYS_DEPLOY_LAUNCHER_LOCK_HOLDER_H_
#define TETHYS_DEPLOY_LAUNCHER_LOCK_HOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tethys {

// Parses /proc/locks (proc(5)): the processes that hold an exclusive flock() of a file with this inode
// number, on any file system. Processes that wait for such a lock are left out. Pure.
std::vector<int64_t> ExclusiveLockers(absl::string_view proc_locks, uint64_t inode);

// The process that holds an exclusive flock() of `file` and has `file` open. nullopt: no such process is
// visible, because there is none, it belongs to another host, container or user, or /proc is incomplete.
absl::optional<int64_t> LockHolder(const std::string& file);

// True if SIGTERM does not kill a process at once, because its main thread catches or blocks the signal.
// Parses the text of /proc/PROCESS/status. Pure.
bool TakesTermination(absl::string_view proc_status);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LOCK_HOLDER_H_
