// The process that holds the lock of a file, as the kernel shows it: for runs whose launcher is of a build
// that does not name itself in the lock file. Blocks on small files of /proc; any thread.
#ifndef TETHYS_DEPLOY_LAUNCHER_LOCK_HOLDER_H_
#define TETHYS_DEPLOY_LAUNCHER_LOCK_HOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tethys {

// The processes that hold an exclusive flock() of a file with this inode number, of any file system, by the
// text of /proc/locks (proc(5)). Processes that wait for such a lock are left out. Pure.
std::vector<int64_t> ExclusiveLockers(absl::string_view proc_locks, uint64_t inode);

// The process that holds an exclusive flock() of `file`, and has it open. Nullopt: no such process can be
// seen, because none holds it, it is of another host, container or user, or /proc does not tell.
absl::optional<int64_t> LockHolder(const std::string& file);

// Whether SIGTERM does not end a process at once, because its main thread catches or blocks it, by the text
// of its /proc/PROCESS/status. Pure.
bool TakesTermination(absl::string_view proc_status);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LOCK_HOLDER_H_
