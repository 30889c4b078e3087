// The directory a run leaves behind. One run at a time: it stays locked until the RunDirectory is gone.
// Blocking; thread-compatible.
#ifndef TETHYS_DEPLOY_LAUNCHER_RUN_DIRECTORY_H_
#define TETHYS_DEPLOY_LAUNCHER_RUN_DIRECTORY_H_

#include <string>

#include "proto/job.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class RunDirectory {
 public:
  // Made where it is missing. FailedPrecondition: in use, or it holds a run already.
  static absl::StatusOr<RunDirectory> Create(const std::string& path);
  // One that holds a run, to resume it. NotFound: it holds none. FailedPrecondition: in use.
  static absl::StatusOr<RunDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string job_file() const { return path_ + "/job.textproto"; }
  // The job as resolved, every default written out.
  absl::Status WriteJob(const proto::Job& job) const;

 private:
  RunDirectory(std::string path, FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  FileDescriptor lock_;
};

// "runs/NAME-20261121-123456" by the local time; with a number behind it where that exists.
std::string FreshRunPath(const std::string& name);

// `name` with everything replaced that has a meaning in paths or shells.
std::string FileNameText(const std::string& name);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_RUN_DIRECTORY_H_
