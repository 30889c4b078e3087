// The name of the launcher process of a run. It is stored in the lock file of the run's directory, so that
// `tethys runs stop` finds exactly this process: process numbers are reused, but not together with the start
// time and the boot id. Blocks on small files of /proc; any thread.
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

// The name of this process. FailedPrecondition: /proc does not show this process.
absl::StatusOr<LauncherName> OwnLauncherName();

// "launcher PROCESS START BOOT_ID HOST" with a newline.
std::string LauncherLine(const LauncherName& name);

// Parses a line of LauncherLine. DataLoss: the text is no such line.
absl::StatusOr<LauncherName> ParseLauncherLine(absl::string_view line);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCHER_NAME_H_
