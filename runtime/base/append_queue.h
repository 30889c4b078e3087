// Appends to a file on a thread of its own, so that an event loop with lines to write never waits for the
// disk: a write that hangs (a network file system, a kernel that throttles writers) holds up only that
// thread. Thread-safe; only Flush and the destructor block.
#ifndef TETHYS_RUNTIME_BASE_APPEND_QUEUE_H_
#define TETHYS_RUNTIME_BASE_APPEND_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

namespace tethys {

// Invariants:
//  1. The written bytes are a prefix of the appended bytes, except for records that Options allows to be
//     lost.
//  2. At most Options::most_bytes bytes are queued, and at most the same number of bytes is being written.
class AppendQueue {
 public:
  // Writes `record` as AppendFile::Append does: after an error the file contains no part of the record.
  using Write = std::function<absl::Status(absl::string_view record)>;

  struct Options {
    std::string name;                        // The file's name, for messages.
    int64_t most_bytes = int64_t{64} << 20;  // Limit on queued bytes.
    // Behaviour after a failed write. True: the write is retried together with the lines appended since. Once
    // more than most_bytes bytes are queued, nothing more is written to the file. False: the lines of the
    // failed write are lost, and so are lines appended while the queue is full.
    bool retry = false;
    Nanoseconds retry_pause = 100 * kMillisecond;
  };

  // `write` is called by the queue's thread alone. If no thread can be started, nothing is written, and Flush
  // and TakeError return the error.
  AppendQueue(Options options, Write write);
  // Blocks until the queued bytes are written. A write that fails meanwhile is not retried.
  ~AppendQueue();

  // Queues `lines`, which must be whole lines, for writing.
  void Append(absl::string_view lines);

  // The state of the appended bytes.
  struct Progress {
    int64_t written = 0;    // The number of bytes that were written.
    std::string unwritten;  // The bytes that come next. The file may have some of them already.
  };
  // Does not block. Unavailable: more than `most_bytes` bytes are unwritten. DataLoss: nothing more is
  // written to the file.
  absl::StatusOr<Progress> GetProgress(int64_t most_bytes);

  // Returns and clears the first error that no earlier call has returned. OK: there is no such error. Write
  // errors are also logged.
  absl::Status TakeError();

  // Blocks until all lines appended so far are written. If Options::retry is set, an error means that some of
  // these lines were not written: either a write that began during this call has failed, or the file has been
  // given up after earlier errors. If Options::retry is not set, returns and clears the error as TakeError
  // does.
  absl::Status Flush();

 private:
  void Run();
  // Waits for a record. Returns null when the queue has ended and is empty.
  std::shared_ptr<const std::string> Take();
  void Settle(const std::string& record, const absl::Status& status);

  const Options options_;
  const Write write_;

  Mutex mu_;
  CondVar changed_;
  std::string waiting_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const std::string> record_ ABSL_GUARDED_BY(mu_);  // The record being written, or null.
  int64_t written_ ABSL_GUARDED_BY(mu_) = 0;                        // Bytes of appended_ that are written.
  int64_t appended_ ABSL_GUARDED_BY(mu_) = 0;                       // Bytes appended since the start.
  int64_t settled_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes of appended_ that are written or lost.
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0;    // Writes begun, including the one in progress.
  int64_t failed_ ABSL_GUARDED_BY(mu_) = 0;   // The number of the last write that failed; 0: none did.
  int flushing_ ABSL_GUARDED_BY(mu_) = 0;     // Number of callers in Flush. If above 0, no retry pauses.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);     // The first error that no call has returned yet.
  absl::Status last_ ABSL_GUARDED_BY(mu_);      // Status of the last write.
  absl::Status given_up_ ABSL_GUARDED_BY(mu_);  // Why nothing more is written; OK: writing goes on.

  Thread thread_;  // Declared last, because it uses the members above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_APPEND_QUEUE_H_
