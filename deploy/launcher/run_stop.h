// Asks the launcher of a running run to end the run, for `tethys runs stop`. Uses SIGTERM, which has the
// effect of Ctrl-C and is not ignored by a shell's background job. Thread-compatible.
#ifndef TETHYS_DEPLOY_LAUNCHER_RUN_STOP_H_
#define TETHYS_DEPLOY_LAUNCHER_RUN_STOP_H_

#include <string>
#include <utility>

#include "absl/types/optional.h"
#include "deploy/launcher/launcher_name.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// The launcher of the run in `run_dir`. It is identified by a pidfd, a descriptor that never refers to
// another process, so a signal cannot reach a later process with the same number.
class RunningLauncher {
 public:
  // Finds the launcher: the process that the lock file names or, if the file has no name that this build can
  // read, the process that holds the lock and handles SIGTERM. NotFound: there is no run. FailedPrecondition:
  // no process makes the run now; or the process belongs to another host or container; or the process has not
  // begun the run yet. DataLoss: the lock file is damaged. Blocks on small files only.
  static absl::StatusOr<RunningLauncher> Find(const std::string& run_dir);

  const LauncherName& name() const { return name_; }

  // Asks the launcher to end the run. PermissionDenied: the process belongs to another user. OK if the
  // launcher has just ended.
  absl::Status AskToStop() const;

  // Blocks until the process has ended, at most for `limit`. Returns true if the process has ended.
  absl::StatusOr<bool> WaitForEnd(Nanoseconds limit) const;

 private:
  // nullopt: no visible process holds the lock and handles SIGTERM.
  static absl::optional<RunningLauncher> FindByLock(const std::string& run_dir);

  RunningLauncher(LauncherName name, FileDescriptor process)
      : name_(std::move(name)), process_(std::move(process)) {}

  LauncherName name_;
  FileDescriptor process_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_RUN_STOP_H_
