// steps.csv and epochs.csv of a run directory: a header line, then lines appended as results come.
// Thread-compatible. Open, Flush and the destructor wait for the disk; nothing else does.
//
// A resumed run appends. Steps (or epochs) that the earlier attempt made after its last checkpoint are made
// again: of two lines with the same rank and step (the same epoch), the later one counts.
#ifndef TETHYS_RUNTIME_TELEMETRY_RUN_CSV_H_
#define TETHYS_RUNTIME_TELEMETRY_RUN_CSV_H_

#include <memory>
#include <string>

#include "proto/telemetry.pb.h"
#include "runtime/base/append_queue.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// A CSV file that grows by whole lines.
class CsvFile {
 public:
  // An existing file keeps its lines; a last line cut short by a crash is dropped. FailedPrecondition: the
  // file has another header.
  static absl::StatusOr<std::unique_ptr<CsvFile>> Open(const std::string& path, const std::string& header);
  // `line` has no line end. Lines are queued for writing in pieces of about 64 KiB. Errors concern earlier
  // lines: a failed write loses its lines, and while the disk is too slow new lines are lost, so that the
  // chief's memory does not grow. The file still holds whole lines only.
  absl::Status AddLine(absl::string_view line);
  // Queues everything added so far for writing. Does not block.
  absl::Status HandOn();
  // Blocks until everything added so far is in the file.
  absl::Status Flush();

 private:
  CsvFile(std::unique_ptr<AppendFile> file, const std::string& path);
  const std::unique_ptr<AppendFile> file_;
  std::string buffer_;
  AppendQueue queue_;  // Last, so destroyed first: its thread writes to the file.
};

// Epochs are counted from 1 in both files, as in all output for people.

// Columns of steps.csv, and a record as its line. `begin_ns` is shifted by `clock_offset` onto the chief's
// clock; bucket ready times are joined by spaces.
extern const char kStepsCsvHeader[];
std::string StepsCsvLine(const proto::StepRecord& record, Nanoseconds clock_offset);

// Columns of epochs.csv, and a result as its line; validation columns are empty without validation.
extern const char kEpochsCsvHeader[];
std::string EpochsCsvLine(const proto::EpochResult& result);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_RUN_CSV_H_
