// Appends to a file on a thread of its own, so that an event loop with lines to write never waits for the
// disk: a write that hangs (a network file system, a kernel that throttles who writes) holds up that thread
// alone. Thread-safe; only Flush and the destructor block.
#ifndef TETHYS_RUNTIME_BASE_APPEND_QUEUE_H_
#define TETHYS_RUNTIME_BASE_APPEND_QUEUE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace tethys {

// Invariants:
//  1. What is written is a prefix of what was appended, but for records that Options allows to lose.
//  2. At most Options::most_bytes wait, and as many again are being written.
class AppendQueue {
 public:
  // As AppendFile::Append: after an error nothing of the record is in the file.
  using Write = std::function<absl::Status(absl::string_view record)>;

  struct Options {
    std::string name;                        // Of the file, for messages.
    int64_t most_bytes = int64_t{64} << 20;  // That wait for the disk.
    // After a write that failed. True: it is tried again with what came since; once more than most_bytes
    // wait, the rest of the file is given up for good. False: its lines are lost, and so is what comes while
    // the queue is full.
    bool retry = false;
    Nanoseconds retry_pause = 100 * kMillisecond;
  };

  // `write` is called by the queue's thread alone.
  AppendQueue(Options options, Write write);
  // Waits for the disk. A write that fails then is not tried again.
  ~AppendQueue();

  // Whole lines.
  void Append(absl::string_view lines);

  // The first error since the last call; OK: none. Errors of writes are in the log, too.
  absl::Status TakeError();

  // Waits until everything appended so far is written. With retry, an error says that it is not: a write that
  // began after the call has failed, or the file is given up. Without it, takes the error as TakeError does.
  absl::Status Flush();

 private:
  void Run();
  // Waits for something to write; false: the queue ends and there is nothing.
  bool Take(std::string& record);
  void Settle(const std::string& record, const absl::Status& status);

  const Options options_;
  const Write write_;

  Mutex mu_;
  CondVar changed_;
  std::string waiting_ ABSL_GUARDED_BY(mu_);
  int64_t appended_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes, ever.
  int64_t settled_ ABSL_GUARDED_BY(mu_) = 0;   // Of these, written or lost.
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0;     // Writes, the one under way included.
  int64_t failed_ ABSL_GUARDED_BY(mu_) = 0;    // The number of the last write that failed; 0: none did.
  int flushing_ ABSL_GUARDED_BY(mu_) = 0;      // Callers of Flush that wait: no pause before another try.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);     // Not taken yet.
  absl::Status last_ ABSL_GUARDED_BY(mu_);      // Of the last write.
  absl::Status given_up_ ABSL_GUARDED_BY(mu_);  // Why nothing more is written.

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_APPEND_QUEUE_H_
