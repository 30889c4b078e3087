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

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// The error of a write call that failed or that wrote 0 bytes. Writing 0 bytes is an error too, because the
// caller would otherwise retry forever.
absl::Status WriteError(ssize_t written, const std::string& name) {
  return ErrnoStatus(written < 0 ? errno : EIO, absl::StrCat("cannot write ", name));
}

// The number of bytes up to and including the last line end of a file of `size` bytes.
absl::StatusOr<int64_t> BytesOfWholeLines(int fd, int64_t size, const std::string& path) {
  char piece[4096];
  while (size > 0) {
    const int64_t count = std::min<int64_t>(size, sizeof(piece));
    TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd, piece, count, size - count, path));
    size -= count;
    const size_t end = absl::string_view(piece, count).rfind('\n');
    if (end != absl::string_view::npos) return size + static_cast<int64_t>(end) + 1;
  }
  return 0;
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
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return WriteError(written, name);
    at += written;
    size -= written;
  }
  return absl::OkStatus();
}

absl::Status WriteFullyAt(int fd, const void* data, int64_t size, int64_t offset, const std::string& name) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(fd, at, size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return WriteError(written, name);
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
      return absl::DataLossError(
          absl::StrCat(name, " ends at byte ", offset, ", ", size, " bytes too early"));
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
  FileDescriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  TETHYS_RETURN_IF_ERROR(SyncDirectory(Parent(path)));
  return std::unique_ptr<AppendFile>(new AppendFile(std::move(fd), path));
}

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::OpenLines(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, Open(path));
  const int64_t size = lseek(file->fd_.get(), 0, SEEK_END);
  TETHYS_ASSIGN_OR_RETURN(const int64_t whole, BytesOfWholeLines(file->fd_.get(), size, path));
  if (whole != size) file->torn_at_ = whole;
  TETHYS_RETURN_IF_ERROR(file->CutTornRecord());
  return file;
}

absl::Status AppendFile::Append(absl::string_view record) {
  TETHYS_RETURN_IF_ERROR(CutTornRecord());
  const int64_t end = lseek(fd_.get(), 0, SEEK_END);
  const absl::Status status = WriteFully(fd_.get(), record.data(), record.size(), path_);
  if (status.ok()) return status;
  torn_at_ = end;
  CutTornRecord().IgnoreError();
  return status;
}

absl::Status AppendFile::CutTornRecord() {
  if (torn_at_ < 0) return absl::OkStatus();
  if (ftruncate(fd_.get(), torn_at_) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot cut a partly written record off ", path_));
  }
  torn_at_ = -1;
  return absl::OkStatus();
}

absl::Status AppendFile::Sync() {
  if (sync_status_.ok() && fdatasync(fd_.get()) != 0) {
    sync_status_ = ErrnoStatus(errno, absl::StrCat("cannot sync ", path_));
  }
  return sync_status_;
}

absl::Status CreateDirectories(const std::string& path) {
  if (IsDirectory(path)) return absl::OkStatus();
  const std::string parent = Parent(path);
  if (parent != path) TETHYS_RETURN_IF_ERROR(CreateDirectories(parent));
  const int error = mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  if (error != 0 && !IsDirectory(path)) {
    return ErrnoStatus(error, absl::StrCat("cannot create directory ", path));
  }
  return SyncDirectory(parent);
}

absl::StatusOr<int64_t> FileBytes(const std::string& path) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return ErrnoStatus(errno, absl::StrCat("cannot find ", path));
  return static_cast<int64_t>(about.st_size);
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
