// The name of the process that makes a run, as it lies in the lock file of the run's directory, so that
// `tethys runs stop` finds that process and never another one. Process numbers are used again; with the time
// of the process's start and the boot of its kernel they are not. Blocks on small files of /proc; any thread.
#ifndef TETHYS_DEPLOY_LAUNCHER_LAUNCHER_NAME_H_
#define TETHYS_DEPLOY_LAUNCHER_LAUNCHER_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

struct LauncherName {
  int64_t process = 0;
  int64_t start = 0;  // In clock ticks since the host started (ProcessStart).
  std::string boot_id = {};
  std::string host = {};

  bool operator==(const LauncherName&) const = default;
};

// The name of this process. FailedPrecondition: /proc does not show it.
absl::StatusOr<LauncherName> OwnLauncherName();

// "launcher PROCESS START BOOT_ID HOST" with a newline.
std::string LauncherLine(const LauncherName& name);

// Reads such a line. DataLoss: it is none.
absl::StatusOr<LauncherName> ParseLauncherLine(absl::string_view line);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCHER_NAME_H_
