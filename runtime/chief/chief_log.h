// The file in which the chief keeps every input of its JobController (proto/chief_log.proto) before it acts
// on the input. If the chief's process is killed, another process repeats the inputs (chief_input.h). The log
// survives the process, but not the machine: it is never synced. The process that writes to it holds a lock
// (flock), which ends with the process.
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
  // A longer log would take too long to repeat (about two seconds at this size).
  static constexpr int64_t kMostBytes = int64_t{128} << 20;

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

 private:
  ChiefLog(FileDescriptor fd, std::string path, int64_t bytes, int64_t most_bytes);

  FileDescriptor fd_;  // Invalid once the log has been removed.
  const std::string path_;
  int64_t bytes_;
  const int64_t most_bytes_;
  std::string frame_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_LOG_H_
