#include "runtime/base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tethys {
namespace {

// The groups of this process, including the effective group.
std::vector<gid_t> OwnGroups() {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(0, count)));
  groups.push_back(getegid());
  return groups;
}

}  // namespace

absl::Status CheckPrivate(const PrivateFileFacts& file, const PrivateFileReader& reader,
                          const std::string& path, const char* secret) {
  // A file that is readable by a group is accepted only if it is a mounted secret: a file of root whose mode
  // the reader cannot change. A reader that is root can change the mode, so for root the file must also be
  // read-only, as mounted secrets are.
  const bool mounted = file.owner == 0 && (reader.user != 0 || (file.mode & S_IWUSR) == 0);
  const bool of_group =
      mounted && (file.mode & (S_IWGRP | S_IXGRP | S_IRWXO)) == 0 && (file.mode & S_IRGRP) != 0 &&
      std::find(reader.groups.begin(), reader.groups.end(), file.group) != reader.groups.end();
  if (of_group) return absl::OkStatus();
  if ((file.mode & (S_IRWXG | S_IRWXO)) != 0) {
    const char* remedy =
        file.owner == reader.user
            ? "chmod 600 "
            : "this user does not own the file, so root must own it, its group must be a group of this "
              "process, and its mode must be 0440 (in Kubernetes: set fsGroup and defaultMode: 0400): ";
    return absl::PermissionDeniedError(absl::StrFormat("%s has mode %04o: others could read %s; %s%s", path,
                                                       file.mode & 07777, secret, remedy, path));
  }
  if (file.owner != reader.user) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " belongs to another user, who knows ", secret, ": make a file of your own"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> OpenPrivateFile(const std::string& path, const char* secret) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot examine ", path));
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  TETHYS_RETURN_IF_ERROR(CheckPrivate({.owner = info.st_uid, .group = info.st_gid, .mode = info.st_mode},
                                      {.user = geteuid(), .groups = OwnGroups()}, path, secret));
  return fd;
}

}  // namespace tethys
