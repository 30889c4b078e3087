// Finds out whether a CSV file begins with a header, and which of its first lines look like a mistake. Blocks
// on reads of the file; any thread.
#ifndef TETHYS_RUNTIME_DATA_CSV_HEADER_H_
#define TETHYS_RUNTIME_DATA_CSV_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"
#include "runtime/data/csv_lines.h"

namespace tethys {

// True if the first line of a file is a header: it has at least one name, no number and nothing that was
// meant as a number. One exception: the numbers 0, 1, 2, ..., in this order and at least two of them, are
// allowed beside the names, because pandas writes them for columns without names.
bool IsCsvHeader(absl::string_view line, char delimiter);

// True for "sep=" and one more character, such as "sep=;": a line that spreadsheets write and read before the
// header to name the delimiter.
bool IsSeparatorLine(absl::string_view line);

// The division of a file's lines into columns.
struct CsvColumns {
  char delimiter = ',';
  int64_t count = 0;
  bool first_is_label = false;
};

// Sentences on possible mistakes at the beginning of a file with `header` lines of headers: a header of
// numbers that is read as a sample, and row numbers that are read as values. Reads a few lines. Requires at
// least one line after the header.
absl::StatusOr<std::vector<std::string>> CsvBeginningNotes(const CsvLines& lines, int64_t header,
                                                           const CsvColumns& columns);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CSV_HEADER_H_
