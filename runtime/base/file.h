// Files: whole reads with a size limit, durable atomic writes, and a directory lock. Blocking;
// thread-compatible.
#ifndef TETHYS_RUNTIME_BASE_FILE_H_
#define TETHYS_RUNTIME_BASE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys {

// An open descriptor, closed by the destructor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();
  void Close();

 private:
  int fd_ = -1;
};

// Reads a whole file. ResourceExhausted: the file is larger than `limit` bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit = int64_t{1} << 30);

// Writes a file so that, even after a power cut, it has the old or the new contents, never a mixture: writes
// a temporary file, calls fdatasync, renames the file, and calls fsync for the directory.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents);

// Appends whole records to a file; records appended before a successful Sync survive a power cut. One thread
// may sync while another appends.
class AppendFile {
 public:
  // Opens the file; creates it if it is missing.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(const std::string& path);
  // Like Open, for a file of lines: an unterminated last line, left by a crash, is cut off.
  static absl::StatusOr<std::unique_ptr<AppendFile>> OpenLines(const std::string& path);

  // After an error the file contains no part of the record, or the next Append first cuts this part off.
  absl::Status Append(absl::string_view record);
  // After an error, every later call returns the same error: the disk may have dropped written data, and
  // another fsync would succeed all the same (fsync(2)).
  absl::Status Sync();

 private:
  AppendFile(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  absl::Status CutTornRecord();

  FileDescriptor fd_;
  std::string path_;
  int64_t torn_at_ = -1;  // Offset of a partly written record; -1: there is none.
  absl::Status sync_status_;
};

// Write or read exactly `size` bytes, at the current position or at `offset`.
absl::Status WriteFully(int fd, const void* data, int64_t size, const std::string& name);
absl::Status WriteFullyAt(int fd, const void* data, int64_t size, int64_t offset, const std::string& name);
absl::Status ReadFullyAt(int fd, void* data, int64_t size, int64_t offset, const std::string& name);

// Creates `path` and its missing parents; the created directories survive a power cut.
absl::Status CreateDirectories(const std::string& path);
bool FileExists(const std::string& path);
// The length of a file. NotFound: there is no such file.
absl::StatusOr<int64_t> FileBytes(const std::string& path);
absl::Status SyncDirectory(const std::string& path);
// The names in a directory, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);
// Removes a path with all that is below it. A missing path is not an error.
absl::Status RemoveRecursively(const std::string& path);

// Locks PATH/.lock (flock) until the descriptor is closed or the process ends. FailedPrecondition when the
// lock is already held.
absl::StatusOr<FileDescriptor> LockDirectory(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_FILE_H_
