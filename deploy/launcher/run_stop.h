// Asks the launcher of a running run to end it, for `tethys runs stop`. Uses SIGTERM, which does what Ctrl-C
// does, and which a shell's background job does not ignore. Thread-compatible.
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

// The launcher of the run in `run_dir`, held by a descriptor that no other process ever has (pidfd), so that
// a signal cannot reach a process that got its number later.
class RunningLauncher {
 public:
  // The launcher is the process that the lock file names or, where it names none that can be read (launchers
  // of other builds), the one that holds the lock and takes SIGTERM. NotFound: there is no run.
  // FailedPrecondition: nothing makes the run now, or a process of another host, of another container, or one
  // that has not begun the run yet. DataLoss: the lock file is damaged. Blocks on small files only.
  static absl::StatusOr<RunningLauncher> Find(const std::string& run_dir);

  const LauncherName& name() const { return name_; }

  // Asks it to end the run. PermissionDenied: it is another user's process. OK if it has just ended.
  absl::Status AskToStop() const;

  // Blocks until the process has ended, at most `limit`. Returns whether it has.
  absl::StatusOr<bool> WaitForEnd(Nanoseconds limit) const;

 private:
  // Nullopt: no process that takes SIGTERM is seen to hold the lock.
  static absl::optional<RunningLauncher> FindByLock(const std::string& run_dir);

  RunningLauncher(LauncherName name, FileDescriptor process)
      : name_(std::move(name)), process_(std::move(process)) {}

  LauncherName name_;
  FileDescriptor process_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_RUN_STOP_H_
