#include "deploy/process/scratch_directory.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"

namespace tethys {
namespace {

constexpr char kPrefix[] = "tethys-scratch-";
// In seconds. A folder that is younger may belong to a running command that has not locked it yet.
constexpr time_t kYoung = 600;

// The absolute path of the folder for temporary files. A relative TMPDIR is made absolute here, because
// children may run in another folder.
std::string Parent() {
  const char* given = std::getenv("TMPDIR");
  if (given == nullptr || *given == '\0') return "/tmp";
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(given, error);
  return error ? given : absolute.string();
}

// True if `path` is the folder of a command of this user that has ended.
bool IsLeft(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) return false;
  return time(nullptr) - info.st_mtime > kYoung && LockDirectory(path).ok();
}

void RemoveLeft(const std::string& parent) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(parent);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(parent, "/", name);
    if (absl::StartsWith(name, kPrefix) && IsLeft(path)) RemoveRecursively(path).IgnoreError();
  }
}

}  // namespace

absl::StatusOr<ScratchDirectory> ScratchDirectory::Create() { return CreateIn(Parent()); }

absl::StatusOr<ScratchDirectory> ScratchDirectory::CreateIn(const std::string& parent) {
  RemoveLeft(parent);
  std::string path = absl::StrCat(parent, "/", kPrefix, "XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    const absl::Status status = ErrnoStatus(errno, absl::StrCat("cannot make ", path));
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), ": name a folder for temporary files by TMPDIR"));
  }
  absl::StatusOr<FileDescriptor> lock = LockDirectory(path);
  if (!lock.ok()) {
    RemoveRecursively(path).IgnoreError();
    return lock.status();
  }
  return ScratchDirectory(std::move(path), *std::move(lock));
}

ScratchDirectory::~ScratchDirectory() {
  if (!path_.empty()) RemoveRecursively(path_).IgnoreError();
}

}  // namespace tethys
