#include "deploy/launcher/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/job/job.h"

namespace tethys {

absl::StatusOr<RunDirectory> RunDirectory::Create(const std::string& path) {
  TETHYS_RETURN_IF_ERROR(CreateDirectories(path));
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor lock, LockDirectory(path));
  RunDirectory directory(path, std::move(lock));
  if (FileExists(directory.job_file())) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " holds a run already: go on with it by --resume, or name another directory by --run_dir"));
  }
  return directory;
}

absl::StatusOr<RunDirectory> RunDirectory::Open(const std::string& path) {
  const std::string job_file = path + "/job.textproto";
  if (!FileExists(job_file)) {
    return absl::NotFoundError(absl::StrCat(path, " holds no run to resume: there is no ", job_file));
  }
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor lock, LockDirectory(path));
  return RunDirectory(path, std::move(lock));
}

absl::StatusOr<bool> RunDirectory::InUse(const std::string& path) {
  const std::string name = path + "/.lock";
  const FileDescriptor lock(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!lock.valid()) {
    if (errno == ENOENT) return false;
    return ErrnoStatus(errno, absl::StrCat("cannot open ", name));
  }
  if (flock(lock.get(), LOCK_SH | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  return ErrnoStatus(errno, absl::StrCat("cannot probe the lock of ", name));
}

absl::Status RunDirectory::WriteJob(const proto::Job& job) const {
  return WriteFileAtomically(job_file(), ResolvedText(job));
}

std::string FreshRunPath(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  localtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &parts);
  const std::string path = absl::StrCat("runs/", FileNameText(name), "-", stamp);
  std::string candidate = path;
  for (int i = 2; FileExists(candidate); ++i) candidate = absl::StrCat(path, "-", i);
  return candidate;
}

std::string FileNameText(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.' && c != '=' && c != '+') c = '_';
  }
  return text;
}

}  // namespace tethys
