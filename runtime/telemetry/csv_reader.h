// Reads the CSV files that runs write, column by name. Cells hold no commas or quotes there; a line that does
// not have as many cells as the header is skipped, as a run that was killed may leave one.
#ifndef TETHYS_RUNTIME_TELEMETRY_CSV_READER_H_
#define TETHYS_RUNTIME_TELEMETRY_CSV_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

class CsvReader {
 public:
  // `text` outlives the reader.
  explicit CsvReader(absl::string_view text);
  // False at the end.
  bool Next();
  // Of the current line; empty for a column that the file lacks.
  absl::string_view Text(const std::string& column) const;
  // 0 where there is no number.
  double Number(const std::string& column) const;
  // 0 where there is no whole number.
  int64_t Integer(const std::string& column) const;

 private:
  bool TakeLine(std::vector<absl::string_view>& cells);

  absl::string_view rest_;
  std::map<std::string, size_t> columns_;  // Of two of one name, the last.
  size_t width_ = 0;
  std::vector<absl::string_view> cells_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_CSV_READER_H_
