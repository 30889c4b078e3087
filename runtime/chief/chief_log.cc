#include "runtime/chief/chief_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/clock.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/logging.h"

namespace tethys {
namespace {

constexpr size_t kHead = 2 * sizeof(uint32_t);
// A process that was killed may take a moment to end.
constexpr Nanoseconds kPatience = 2 * kSecond;

void PutNumber(uint32_t value, char* to) { std::memcpy(to, &value, sizeof(value)); }
uint32_t NumberAt(absl::string_view bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// True if `fd` is the file at `path`: another process may have removed or replaced the file after `fd` was
// opened.
bool IsFileAt(const std::string& path, int fd) {
  struct stat opened = {}, there = {};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &there) == 0 && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

// Opens the file and locks it. Waits for another process that holds the lock; since flock has no deadline,
// the lock is tried again and again.
absl::StatusOr<FileDescriptor> OpenLocked(const std::string& path, int flags) {
  const MonotonicClock clock;
  const Nanoseconds deadline = clock.Now() + kPatience;
  while (true) {
    FileDescriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0644));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
    const bool locked = flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK) return ErrnoStatus(errno, absl::StrCat("cannot lock ", path));
    if (locked && IsFileAt(path, fd.get())) return fd;
    if (clock.Now() >= deadline) {
      return absl::AlreadyExistsError(absl::StrCat("another process writes to ", path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::string NewPath(const std::string& path) { return absl::StrCat(path, ChiefLog::kNewSuffix); }

// The whole records of the log's bytes; takes them from the front of `bytes`.
absl::StatusOr<std::vector<proto::ChiefRecord>> TakeRecords(const std::string& path,
                                                            absl::string_view& bytes) {
  const size_t size = bytes.size();
  std::vector<proto::ChiefRecord> records;
  while (bytes.size() >= kHead) {
    const uint32_t length = NumberAt(bytes), crc = NumberAt(bytes.substr(sizeof(uint32_t)));
    if (bytes.size() - kHead < length) break;  // The record was cut off.
    const absl::string_view message = bytes.substr(kHead, length);
    if (Crc32c(message) != crc || !records.emplace_back().ParseFromArray(message.data(), message.size())) {
      return absl::DataLossError(
          absl::StrCat(path, ": the record at byte ", size - bytes.size(), " is damaged"));
    }
    bytes.remove_prefix(kHead + length);
  }
  return records;
}

}  // namespace

ChiefLog::ChiefLog(FileDescriptor fd, std::string path, int64_t bytes, int64_t first_bytes,
                   int64_t most_bytes)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      bytes_(bytes),
      long_bytes_(first_bytes + std::max(kLongBytes, first_bytes)),
      most_bytes_(most_bytes) {}

absl::StatusOr<std::unique_ptr<ChiefLog>> ChiefLog::Create(const std::string& path, int64_t most_bytes) {
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor fd, OpenLocked(path, O_CREAT));
  TETHYS_RETURN_IF_ERROR(RemoveRecursively(NewPath(path)));
  if (ftruncate(fd.get(), 0) != 0) return ErrnoStatus(errno, absl::StrCat("cannot empty ", path));
  return std::unique_ptr<ChiefLog>(new ChiefLog(std::move(fd), path, 0, 0, most_bytes));
}

absl::StatusOr<std::unique_ptr<ChiefLog>> ChiefLog::Continue(const std::string& path,
                                                             std::vector<proto::ChiefRecord>& records) {
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor fd, OpenLocked(path, 0));
  TETHYS_RETURN_IF_ERROR(RemoveRecursively(NewPath(path)));
  TETHYS_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  absl::string_view rest = file;
  TETHYS_ASSIGN_OR_RETURN(records, TakeRecords(path, rest));
  const int64_t bytes = static_cast<int64_t>(file.size() - rest.size());
  const int64_t first_bytes = records.empty() ? 0 : static_cast<int64_t>(kHead) + NumberAt(file);
  if (ftruncate(fd.get(), bytes) != 0) return ErrnoStatus(errno, absl::StrCat("cannot shorten ", path));
  return std::unique_ptr<ChiefLog>(new ChiefLog(std::move(fd), path, bytes, first_bytes, kMostBytes));
}

absl::Status ChiefLog::Remove(const std::string& path) {
  absl::Status status = RemoveRecursively(NewPath(path));
  status.Update(RemoveRecursively(path));
  return status;
}

absl::Status ChiefLog::Write(int fd, const proto::ChiefRecord& record, int64_t at) {
  if (at + static_cast<int64_t>(kHead + record.ByteSizeLong()) > most_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, " would become longer than ", most_bytes_, " bytes"));
  }
  frame_.resize(kHead);
  record.AppendToString(&frame_);
  const absl::string_view message = absl::string_view(frame_).substr(kHead);
  PutNumber(static_cast<uint32_t>(message.size()), frame_.data());
  PutNumber(Crc32c(message), frame_.data() + sizeof(uint32_t));
  return WriteFullyAt(fd, frame_.data(), static_cast<int64_t>(frame_.size()), at, path_);
}

void ChiefLog::Append(const proto::ChiefRecord& record) {
  if (!fd_.valid()) return;
  const absl::Status status = Write(fd_.get(), record, bytes_);
  bytes_ += static_cast<int64_t>(frame_.size());
  if (status.ok()) return;
  TETHYS_LOG(Warning, "no other process could take over from this chief from now on: ", status.message());
  fd_.Close();
  unlink(path_.c_str());
}

absl::Status ChiefLog::Replace(const proto::ChiefRecord& record) {
  if (!fd_.valid()) return absl::FailedPreconditionError("the log has been removed");
  absl::StatusOr<FileDescriptor> fd = WriteNew(record);
  if (!fd.ok()) {
    unlink(NewPath(path_).c_str());
    long_bytes_ = bytes_ + kLongBytes;
    return fd.status();
  }
  fd_ = *std::move(fd);
  bytes_ = static_cast<int64_t>(frame_.size());
  long_bytes_ = bytes_ + std::max(kLongBytes, bytes_);
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> ChiefLog::WriteNew(const proto::ChiefRecord& record) {
  const std::string path = NewPath(path_);
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor fd, OpenLocked(path, O_CREAT | O_TRUNC));
  TETHYS_RETURN_IF_ERROR(Write(fd.get(), record, 0));
  if (std::rename(path.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot rename ", path, " to ", path_));
  }
  return fd;
}

}  // namespace tethys
