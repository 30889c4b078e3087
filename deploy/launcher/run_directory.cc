#include "deploy/launcher/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/job/job.h"

namespace tethys {
namespace {

constexpr int64_t kMostLockBytes = 1024;  // In bytes; larger than any LauncherLine.

// Locks the directory, and removes a killed launcher's name from the lock file.
absl::StatusOr<FileDescriptor> LockUnnamed(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor lock, LockDirectory(path));
  if (ftruncate(lock.get(), 0) != 0)
    return ErrnoStatus(errno, absl::StrCat("cannot write ", RunDirectory::LockFile(path)));
  return lock;
}

}  // namespace

std::string RunDirectory::LockFile(const std::string& path) { return path + "/.lock"; }

absl::StatusOr<RunDirectory> RunDirectory::Create(const std::string& path) {
  TETHYS_RETURN_IF_ERROR(CreateDirectories(path));
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor lock, LockUnnamed(path));
  RunDirectory directory(path, std::move(lock));
  if (FileExists(directory.job_file())) {
    const auto saved = ListCheckpoints(path + "/checkpoints");
    const bool goes_on = !saved.ok() || !saved->empty();
    return absl::FailedPreconditionError(absl::StrCat(
        path, " already contains a run: ",
        goes_on ? "go on with this run by --resume, or name another directory by --run_dir"
                : "this run saved no checkpoint, so start again, and name another directory by --run_dir"));
  }
  return directory;
}

absl::StatusOr<RunDirectory> RunDirectory::Open(const std::string& path) {
  const std::string job_file = path + "/job.textproto";
  if (!FileExists(job_file)) {
    return absl::NotFoundError(absl::StrCat(path, " contains no run to resume: there is no ", job_file));
  }
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor lock, LockUnnamed(path));
  return RunDirectory(path, std::move(lock));
}

absl::StatusOr<bool> RunDirectory::InUse(const std::string& path) {
  const std::string name = LockFile(path);
  const FileDescriptor lock(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!lock.valid()) {
    if (errno == ENOENT) return false;
    return ErrnoStatus(errno, absl::StrCat("cannot open ", name));
  }
  if (flock(lock.get(), LOCK_SH | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  return ErrnoStatus(errno, absl::StrCat("cannot probe the lock of ", name));
}

absl::StatusOr<absl::optional<LauncherName>> RunDirectory::Launcher(const std::string& path) {
  const std::string name = LockFile(path);
  // O_NONBLOCK: the path may be a pipe, and opening a pipe would wait for a writer.
  const FileDescriptor file(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() && errno == ENOENT) return absl::nullopt;
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot read ", name));
  }
  if (S_ISREG(facts.st_mode) && facts.st_size == 0) return absl::nullopt;
  if (!S_ISREG(facts.st_mode) || facts.st_size > kMostLockBytes) {
    return absl::DataLossError(absl::StrCat(name, " is not the lock file of a run"));
  }
  std::string line(facts.st_size, '\0');
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(file.get(), line.data(), facts.st_size, 0, name));
  const absl::StatusOr<LauncherName> launcher = ParseLauncherLine(line);
  if (!launcher.ok()) return Annotate(launcher.status(), name);
  return absl::optional<LauncherName>(*launcher);
}

absl::Status RunDirectory::WriteJob(const proto::Job& job) const {
  return WriteFileAtomically(job_file(), ResolvedText(job));
}

NamedLauncher::NamedLauncher(const RunDirectory& directory) : directory_(directory) {
  const absl::StatusOr<LauncherName> name = OwnLauncherName();
  if (!name.ok()) return;
  const std::string line = LauncherLine(*name);
  const absl::Status written = WriteFullyAt(directory.lock_.get(), line.data(),
                                            static_cast<int64_t>(line.size()), 0, directory.path());
  written.IgnoreError();  // An incomplete line names no launcher.
}

NamedLauncher::~NamedLauncher() {
  // A failure is harmless: the lock file then names a process that has ended or does not hold the lock, and
  // such a name is ignored.
  [[maybe_unused]] const int emptied = ftruncate(directory_.lock_.get(), 0);
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
