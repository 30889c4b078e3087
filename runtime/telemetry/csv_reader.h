// Reads CSV files (RFC 4180) by column name: files of runs and files of experiments, whose cells may be
// quoted (CsvLine in deploy/text.h). A line without as many cells as the header, which a killed run may
// leave, is skipped.
#ifndef TETHYS_RUNTIME_TELEMETRY_CSV_READER_H_
#define TETHYS_RUNTIME_TELEMETRY_CSV_READER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

class CsvReader {
 public:
  // `text` must outlive the reader.
  explicit CsvReader(absl::string_view text);
  // Moves to the next line; false at the end.
  bool Next();
  // The current line's cell in `column`; empty if the file has no such column.
  absl::string_view Text(const std::string& column) const;
  // The current line's cell in `column` as a number; 0 if the cell holds no number.
  double Number(const std::string& column) const;
  // The current line's cell in `column` as an integer; 0 if the cell holds no integer.
  int64_t Integer(const std::string& column) const;

 private:
  bool TakeLine(std::vector<absl::string_view>& cells);
  // Takes a line with quoted cells, which may hold line breaks. Returns false, without taking anything, if a
  // quote is not closed.
  bool TakeQuoted(std::vector<absl::string_view>& cells);

  absl::string_view rest_;
  // Positions of columns by name; if two columns have one name, the position of the last.
  std::map<std::string, size_t> columns_;
  size_t width_ = 0;
  std::vector<absl::string_view> cells_;  // Cells of the current line: parts of the text or of `unquoted_`.
  std::deque<std::string> unquoted_;      // The contents of the current line's quoted cells.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_CSV_READER_H_
