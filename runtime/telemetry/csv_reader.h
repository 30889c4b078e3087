// Reads the CSV files that runs write, by column name. Their cells hold no commas or quotes. A line without
// as many cells as the header, which a killed run may leave, is skipped.
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
  // Moves to the next line; false at the end.
  bool Next();
  // The current line's cell in `column`; empty if the file has no such column.
  absl::string_view Text(const std::string& column) const;
  // That cell as a number; 0 if it holds none.
  double Number(const std::string& column) const;
  // That cell as an integer; 0 if it holds none.
  int64_t Integer(const std::string& column) const;

 private:
  bool TakeLine(std::vector<absl::string_view>& cells);

  absl::string_view rest_;
  std::map<std::string, size_t> columns_;  // Position by name; of two columns with one name, the last.
  size_t width_ = 0;
  std::vector<absl::string_view> cells_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_CSV_READER_H_
