#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace tethys {
namespace {

std::string Parent(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

int FileDescriptor::Release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void FileDescriptor::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  std::string contents;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got == 0) return contents;
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
    }
    if (static_cast<int64_t>(contents.size()) + got > limit) {
      return absl::ResourceExhaustedError(absl::StrCat(path, " is larger than ", limit, " bytes"));
    }
    contents.append(buffer, got);
  }
}

absl::Status WriteFully(int fd, const void* data, int64_t size, const std::string& name) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(fd, at, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot write ", name));
    }
    at += written;
    size -= written;
  }
  return absl::OkStatus();
}

absl::Status WriteFullyAt(int fd, const void* data, int64_t size, int64_t offset, const std::string& name) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(fd, at, size, offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot write ", name));
    }
    at += written;
    offset += written;
    size -= written;
  }
  return absl::OkStatus();
}

absl::Status ReadFullyAt(int fd, void* data, int64_t size, int64_t offset, const std::string& name) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = pread(fd, at, size, offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot read ", name));
    }
    if (got == 0)
      return absl::DataLossError(absl::StrCat(name, " ends at byte ", offset, ", ", size, " early"));
    at += got;
    offset += got;
    size -= got;
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  FileDescriptor fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", temporary));
  absl::Status status = WriteFully(fd.get(), contents.data(), contents.size(), temporary);
  if (status.ok() && fdatasync(fd.get()) != 0)
    status = ErrnoStatus(errno, absl::StrCat("cannot sync ", temporary));
  fd.Close();
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("cannot rename ", temporary, " to ", path));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(Parent(path));
}

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  return std::unique_ptr<AppendFile>(new AppendFile(std::move(fd), path));
}

absl::Status AppendFile::Append(absl::string_view data) {
  return WriteFully(fd_.get(), data.data(), data.size(), path_);
}

absl::Status AppendFile::Sync() {
  if (fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", path_));
  return absl::OkStatus();
}

absl::Status CreateDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot create directory ", path));
  return absl::OkStatus();
}

bool FileExists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::Status SyncDirectory(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open directory ", path));
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync directory ", path));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator it(path, error);
  std::vector<std::string> names;
  while (!error && it != std::filesystem::directory_iterator()) {
    names.push_back(it->path().filename().string());
    it.increment(error);
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot list ", path));
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveRecursively(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot remove ", path));
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> LockDirectory(const std::string& path) {
  const std::string name = absl::StrCat(path, "/.lock");
  FileDescriptor fd(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", name));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is in use by another run (", name, " is locked)"));
    }
    return ErrnoStatus(errno, absl::StrCat("cannot lock ", name));
  }
  return fd;
}

}  // namespace tethys
