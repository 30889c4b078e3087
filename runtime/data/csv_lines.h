// Reads the lines of a text file by their numbers. The position of each line is held in memory, 8 bytes a
// line; the contents of the lines stay in the file. Find reads the whole file once. Immutable; thread-safe.
#ifndef TETHYS_RUNTIME_DATA_CSV_LINES_H_
#define TETHYS_RUNTIME_DATA_CSV_LINES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"

namespace tethys {

class CsvLines {
 public:
  static constexpr int64_t kMostLineBytes = int64_t{1} << 30;

  // Finds the lines of a file. A line ends with a line feed, or with a carriage return and a line feed; the
  // last line may end with the file. Empty lines at the end are left out. InvalidArgument: an empty line
  // elsewhere, a line longer than kMostLineBytes, or no line at all (IsEmptyFile is true for this error).
  static absl::StatusOr<CsvLines> Find(std::shared_ptr<const ByteSource> file);

  // Leaves out lines at the end that have only delimiters and blanks, which spreadsheets write for rows
  // without values.
  absl::Status LeaveOutBlankEnd(char delimiter);

  int64_t size() const { return static_cast<int64_t>(begins_.size()); }
  // The name of line `index` for errors, counted from 1: "train.csv, line 3".
  std::string Name(int64_t index) const { return absl::StrCat(file_->name(), ", line ", index + 1); }
  // The line without its end; valid until the next call on this thread. Requires 0 <= index < size().
  absl::StatusOr<absl::string_view> Read(int64_t index) const;

 private:
  CsvLines(std::shared_ptr<const ByteSource> file, std::vector<int64_t> begins, int64_t end)
      : file_(std::move(file)), begins_(std::move(begins)), end_(end) {}

  std::shared_ptr<const ByteSource> file_;
  std::vector<int64_t> begins_;
  int64_t end_;  // Position in the file, in bytes, at which the last line ends.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CSV_LINES_H_
