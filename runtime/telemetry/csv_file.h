// A table of a run directory (steps.csv, epochs.csv, resources.csv): a header line, then lines appended as
// results come. Open, Begin, Flush and the destructor wait for the disk; nothing else does. Begin may be
// called on any thread; all other functions are called on one thread.
//
// A resumed run continues its tables. Lines of work that an earlier attempt made after the checkpoint are
// undone, so they are removed when the new attempt begins to train. A table of another version is continued,
// too, because readers find columns by name: missing columns are added, with empty cells in the old lines;
// columns that only the other version has are kept, and are empty in new lines.
#ifndef TETHYS_RUNTIME_TELEMETRY_CSV_FILE_H_
#define TETHYS_RUNTIME_TELEMETRY_CSV_FILE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/chief_snapshot.pb.h"
#include "runtime/base/append_queue.h"
#include "runtime/base/file.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {

class CsvFile {
 public:
  // Returns true if a line that an earlier attempt wrote stays in the file.
  using Stays = std::function<bool(const CsvReader& line)>;

  // Opens the table at `path`, or creates it. An existing file stays as it is until Begin, except that a last
  // line cut short by a crash is dropped. FailedPrecondition: the file is not a table of a run, because its
  // header lacks the first column of `header`.
  static absl::StatusOr<std::unique_ptr<CsvFile>> Open(const std::string& path, const std::string& header,
                                                       Stays stays = nullptr);

  // Writes the table's state. Does not block. Unavailable: the table is not begun yet, or many lines wait for
  // the disk.
  absl::Status Save(proto::AppendedState& state);
  // Opens the table at `path` in a saved state, for a process that takes over: later lines are cut off, and
  // Begin has nothing to do. DataLoss: the table is shorter. InvalidArgument: no table can have this state.
  static absl::StatusOr<std::unique_ptr<CsvFile>> Restore(const std::string& path, const std::string& header,
                                                          const proto::AppendedState& state);

  // Removes the lines that do not stay, and adds missing columns. After an error (a full disk, for example)
  // the file is as before, and the next write tries again. If Begin is not called, the first write does the
  // work of Begin.
  absl::Status Begin();
  // `line` has no line end. Lines are queued for writing in pieces of about 64 KiB. Errors concern earlier
  // lines: a failed write loses its lines, and while the disk is too slow new lines are lost, so that the
  // chief's memory does not grow. The file still contains only whole lines.
  absl::Status AddLine(absl::string_view line);
  // Queues everything added so far for writing. Does not block.
  absl::Status HandOn();
  // Blocks until everything added so far is in the file.
  absl::Status Flush();

 private:
  CsvFile(std::unique_ptr<AppendFile> file, const std::string& path, const std::string& found,
          std::vector<std::string> columns, size_t others, Stays stays);
  absl::Status Write(absl::string_view lines);
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the file has a line that Begin must remove.
  absl::StatusOr<bool> AnyUndone(const std::string& path) const;
  absl::Status WriteCopy(const std::string& path, const std::string& copy) const;

  const std::string path_;
  const std::string found_;                 // The file's header when it was opened.
  const std::vector<std::string> columns_;  // The columns of this version, then other columns of the file.
  const std::string other_cells_;           // Empty cells of the other columns, for a new line.
  const Stays stays_;

  Mutex mu_;
  std::unique_ptr<AppendFile> file_ ABSL_GUARDED_BY(mu_);
  bool prepared_ ABSL_GUARDED_BY(mu_) = false;

  // Once prepared: the length of the file before the queue's lines; -1 before.
  std::atomic<int64_t> begin_{-1};

  std::string buffer_;
  AppendQueue queue_;  // The last member, destroyed first, because its thread writes to the file.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_CSV_FILE_H_
