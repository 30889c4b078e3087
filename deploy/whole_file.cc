#include "deploy/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace tethys {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<WholeFile> WholeFile::Create(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory: name a file"));
  }
  const std::string temporary = path + ".tmp";
  FileDescriptor fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", temporary));
  return WholeFile(path, std::move(fd));
}

WholeFile::WholeFile(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

WholeFile::~WholeFile() {
  if (fd_.valid()) unlink(Temporary().c_str());
}

absl::Status WholeFile::Append(absl::string_view bytes) {
  if (collected_.size() + bytes.size() < kPieceBytes) {
    collected_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  TETHYS_RETURN_IF_ERROR(Flush());
  return WriteFully(fd_.get(), bytes.data(), static_cast<int64_t>(bytes.size()), Temporary());
}

absl::Status WholeFile::Flush() {
  const absl::Status written =
      WriteFully(fd_.get(), collected_.data(), static_cast<int64_t>(collected_.size()), Temporary());
  collected_.clear();
  return written;
}

absl::Status WholeFile::Commit() {
  TETHYS_RETURN_IF_ERROR(Flush());
  if (fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", Temporary()));
  if (std::rename(Temporary().c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot rename ", Temporary(), " to ", path_));
  }
  fd_ = FileDescriptor();
  return absl::OkStatus();
}

}  // namespace tethys
