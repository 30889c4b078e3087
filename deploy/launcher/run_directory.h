// The directory of a run's files, for one run at a time: it is locked until the RunDirectory is destroyed.
// Blocking; thread-compatible.
#ifndef TETHYS_DEPLOY_LAUNCHER_RUN_DIRECTORY_H_
#define TETHYS_DEPLOY_LAUNCHER_RUN_DIRECTORY_H_

#include <string>

#include "absl/types/optional.h"
#include "deploy/launcher/launcher_name.h"
#include "proto/job.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class RunDirectory {
 public:
  // Creates the directory if it is missing. FailedPrecondition: another process uses it, or it already holds
  // a run.
  static absl::StatusOr<RunDirectory> Create(const std::string& path);
  // Opens a directory that holds a run, to resume that run. NotFound: it holds no run. FailedPrecondition:
  // another process uses it.
  static absl::StatusOr<RunDirectory> Open(const std::string& path);

  // The file whose lock a RunDirectory of `path` holds.
  static std::string LockFile(const std::string& path);

  // True if a RunDirectory of this or another process holds the lock of the directory. The probe takes the
  // lock for a moment, so a run that starts or resumes at that moment may be refused.
  static absl::StatusOr<bool> InUse(const std::string& path);

  // The process that has named itself in the directory (NamedLauncher). nullopt: no process has named itself,
  // or the named process no longer makes a run in the directory. DataLoss: the lock file contains other text
  // than a name.
  static absl::StatusOr<absl::optional<LauncherName>> Launcher(const std::string& path);

  const std::string& path() const { return path_; }
  std::string job_file() const { return path_ + "/job.textproto"; }
  // Writes the resolved job, including all defaults, to job_file().
  absl::Status WriteJob(const proto::Job& job) const;

 private:
  friend class NamedLauncher;
  RunDirectory(std::string path, FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  FileDescriptor lock_;
};

// While a NamedLauncher lives, the lock file of the directory names this process, which must then end the run
// gracefully on SIGTERM. If the file cannot be written, the run goes on, but `tethys runs stop` refuses to
// stop it. The directory must outlive the NamedLauncher.
class NamedLauncher {
 public:
  explicit NamedLauncher(const RunDirectory& directory);
  ~NamedLauncher();
  NamedLauncher(const NamedLauncher&) = delete;
  NamedLauncher& operator=(const NamedLauncher&) = delete;

 private:
  const RunDirectory& directory_;
};

// "runs/NAME-20261121-123456" by local time; a number is appended if that path exists.
std::string FreshRunPath(const std::string& name);

// `name` with '_' for every character that is special in paths or shells.
std::string FileNameText(const std::string& name);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_RUN_DIRECTORY_H_
