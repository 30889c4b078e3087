// The file in which the chief keeps every input of its JobController (proto/chief_log.proto) before it acts
// on the input. If the chief's process is killed, another process repeats the inputs (chief_input.h). The log
// survives the process, but not the machine: it is never synced. The process that writes to it holds a lock
// (flock), which ends with the process.
//
// A log that has become long is replaced by a new one, which begins with a snapshot of the chief
// (proto/chief_snapshot.proto) instead of all earlier inputs. The new log is written and locked beside the
// log, under the log's name with kNewSuffix, and then renamed. If the process is killed meanwhile, the old
// log is valid, and the file beside it is removed by the next process.
//
// Each record is a frame: the length and the CRC-32C of the message as 32-bit little-endian numbers, then the
// message. A frame that was cut off, which only a killed process leaves, is the last and is ignored.
#ifndef TETHYS_RUNTIME_CHIEF_CHIEF_LOG_H_
#define TETHYS_RUNTIME_CHIEF_CHIEF_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/chief_log.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// Thread-compatible.
class ChiefLog {
 public:
  static constexpr char kFileName[] = "chief.log";
  static constexpr char kNewSuffix[] = ".new";
  // A longer log would take too long to repeat (about two seconds at this size).
  static constexpr int64_t kMostBytes = int64_t{128} << 20;
  // A log is long if its records after the first have more bytes, and more than the first.
  static constexpr int64_t kLongBytes = 512 << 10;

  // Both functions wait a moment for the end of another process that writes to the log, then return
  // AlreadyExists.
  //
  // Begins a new log; replaces the file.
  static absl::StatusOr<std::unique_ptr<ChiefLog>> Create(const std::string& path,
                                                          int64_t most_bytes = kMostBytes);
  // Reads the whole records of a log whose process has ended, and continues the log. NotFound: there is no
  // log. DataLoss: a record is damaged.
  static absl::StatusOr<std::unique_ptr<ChiefLog>> Continue(const std::string& path,
                                                            std::vector<proto::ChiefRecord>& records);

  // After a failed write, or beyond the largest length, the log is incomplete and is removed. Further calls
  // then do nothing.
  void Append(const proto::ChiefRecord& record);

  // True if the log should be replaced by a shorter one.
  bool IsLong() const { return fd_.valid() && bytes_ > long_bytes_; }
  // Lets a new log, which begins with `record`, replace the log. After an error (ResourceExhausted: the
  // record is too large, or the disk is full), the log continues as it was, and is long again after
  // kLongBytes more.
  absl::Status Replace(const proto::ChiefRecord& record);

  // Removes the log at `path`, and a new log beside it.
  static absl::Status Remove(const std::string& path);

 private:
  // `first_bytes`: the length of the first record, which a log without records lacks.
  ChiefLog(FileDescriptor fd, std::string path, int64_t bytes, int64_t first_bytes, int64_t most_bytes);
  // Writes the record at byte `at`, as a frame, which is in frame_ afterwards.
  absl::Status Write(int fd, const proto::ChiefRecord& record, int64_t at);
  absl::StatusOr<FileDescriptor> WriteNew(const proto::ChiefRecord& record);

  FileDescriptor fd_;  // Invalid once the log has been removed.
  const std::string path_;
  int64_t bytes_;
  int64_t long_bytes_;  // A log with more bytes is long.
  const int64_t most_bytes_;
  std::string frame_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_LOG_H_
