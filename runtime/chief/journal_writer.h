// The chief's side of RUN_DIR/journal: queues lines, which a thread appends to the file. Thread-compatible,
// except Sync. Begin, Continue, Restore, Flush and Sync wait for the disk.
#ifndef TETHYS_RUNTIME_CHIEF_JOURNAL_WRITER_H_
#define TETHYS_RUNTIME_CHIEF_JOURNAL_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/chief_snapshot.pb.h"
#include "runtime/base/append_queue.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class JournalWriter {
 public:
  // Begins an attempt, with the line `attempt`.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Begin(const std::string& path,
                                                              const std::string& attempt);
  // Goes on with an attempt for a lost chief. All lines of the attempt after byte `begin` are expected to
  // come again; those that are in the file already are not written twice.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Continue(const std::string& path, int64_t begin);

  // Writes the journal's state. Does not block. Errors: those of AppendQueue::GetProgress;
  // FailedPrecondition: lines of a lost chief are still expected to come again.
  absl::Status Save(proto::AppendedState& state);
  // Goes on in a saved state for a lost chief. All lines after it are expected to come again, as in Continue.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Restore(const std::string& path,
                                                                const proto::AppendedState& state);

  // The length of the file when its lines after `attempt` begin.
  int64_t begin() const { return begin_; }

  void Add(const std::string& line) { buffer_ += line; }
  // Queues all lines so far for writing. Does not block.
  void HandOn();
  // DataLoss: the lines that came again differ from those of the lost chief. `all`: also if some are missing.
  absl::Status CheckRepeated(bool all) const;

  absl::Status TakeError() { return queue_.TakeError(); }  // As AppendQueue.
  absl::Status Flush() { return queue_.Flush(); }          // As AppendQueue.
  // Makes all lines that were handed on durable. Any thread.
  absl::Status Sync();

 private:
  // `length`: the length of the file.
  JournalWriter(std::unique_ptr<AppendFile> file, std::string path, int64_t length, std::string written);

  const std::string path_;
  const int64_t begin_;
  const int64_t length_;       // The length of the file before the queue's lines.
  const std::string written_;  // What the lost chief wrote.
  size_t known_ = 0;           // The number of bytes of written_ that have come again.
  bool differs_ = false;
  std::string buffer_;
  const std::unique_ptr<AppendFile>
      file_;           // The queue's thread appends to it; Sync may run on another thread.
  AppendQueue queue_;  // Declared last: its thread uses the file.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_JOURNAL_WRITER_H_
