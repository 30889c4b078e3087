// Numbers and tables as people read them. Pure; any thread.
#ifndef TETHYS_DEPLOY_TEXT_H_
#define TETHYS_DEPLOY_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

std::string CountText(int64_t count);      // "54,000"
std::string BytesText(int64_t bytes);      // "512 B", "398 KiB", "1.5 MiB"
std::string DurationText(double seconds);  // "0:07", "12:34", "1:02:03"

// Columns a terminal needs: code points, which is right for the few characters beyond ASCII that are used
// here.
int DisplayWidth(absl::string_view text);
// At most `columns` wide.
std::string Truncate(absl::string_view text, int columns);

struct Column {
  std::vector<std::string> header;  // Its lines; shorter headers stand lower.
  bool left = false;                // Numbers are aligned to the right.
};
// Rows have a cell per column. Two spaces between columns, none at the end of a line. A table that is wider
// than `width` (0: any width will do) is cut into tables one below the other, with an empty line between,
// each of which begins with the first `keys` columns. Only what those and one more column take may exceed the
// width.
std::string Table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows,
                  int width = 0, size_t keys = 1);

// Breaks text at spaces into lines of at most `width` columns, and keeps its own line breaks. Every line is
// indented; a word that is too long has a line of its own. Ends with a newline.
std::string Wrap(absl::string_view text, absl::string_view indent, int width);

// A line of comma-separated values (RFC 4180): quoted where it must be; ends with a newline.
std::string CsvLine(const std::vector<std::string>& cells);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_TEXT_H_
