// Text forms of numbers and tables for the user. Pure; any thread.
#ifndef TETHYS_DEPLOY_TEXT_H_
#define TETHYS_DEPLOY_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

// The unit of every cost. Users give prices per hour, in a currency that is not named, and costs have the
// same currency.
inline constexpr char kCostUnit[] = "in the currency of the prices per hour";
// A sentence on this unit, for lines below tables.
inline constexpr char kCostNote[] = "Costs are in the currency of the prices per hour.";

std::string CountText(int64_t count);  // For example "54,000".
// A finite number with `decimals` digits behind the point, at least 0: "1,234.50".
std::string GroupedText(double value, int decimals);
// With `digits` significant digits, between 1 and 4, but all digits before the point and no exponent if the
// value is large: "0.35", "12,346".
std::string DigitsText(double value, int digits);
std::string SignedDigitsText(double value, int digits);  // For example "+0.35".
// The names in a sentence: "A, B and C"; `last` is the word before the last of several names.
std::string NamesText(const std::vector<std::string>& names, absl::string_view last = "and");
// A number with its noun: "1 worker", "3 workers".
std::string PluralText(int64_t count, const std::string& noun);
std::string BytesText(int64_t bytes);      // For example "512 B", "398 KiB" or "1.5 MiB".
std::string DurationText(double seconds);  // For example "0:07", "12:34" or "1:02:03".
// A whole number above 0 with one of the letters in `units` ("smhd": seconds, minutes, hours, days), such as
// "30m", in seconds. InvalidArgument: anything else, or more than 100 years.
absl::StatusOr<int64_t> ParseDuration(absl::string_view text, absl::string_view units);
// A time with three significant digits: "-35.2 µs", "4.21 ms", "3.4 s"; from 100 s on as in DurationText.
std::string TimeText(double seconds);

// The number of columns that `text` occupies in a terminal. It is the number of code points, which is right
// for the few non-ASCII characters that the program prints.
int DisplayWidth(absl::string_view text);
// Cuts `text` to at most `columns` columns.
std::string Truncate(absl::string_view text, int columns);

struct Column {
  std::vector<std::string> header;  // The lines of the header; headers are aligned at the bottom.
  bool left = false;                // True: aligned left, as text is. False: aligned right, as numbers are.
};
// Formats rows of one cell per column. Columns are separated by two spaces; lines have no spaces at their
// end. A table wider than `width` (0: no limit) is cut into several tables, separated by an empty line. Each
// of these tables begins with the first `keys` columns. A table exceeds the width only if the first `keys`
// columns and one further column do not fit.
std::string Table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows,
                  int width = 0, size_t keys = 1);

// Breaks `text` at spaces into lines of at most `width` columns, and keeps the line breaks in `text`. Every
// line is indented; a word that is too long has a line of its own. "95 %" counts as one word. Ends with a
// newline.
std::string Wrap(absl::string_view text, absl::string_view indent, int width);
// Wraps `text` in a block that begins at column `indent`, with `lead` in its first line, left of the block.
std::string WrapBeside(absl::string_view lead, absl::string_view text, int indent, int width);

// A line of comma-separated values (RFC 4180), quoted where necessary, with a newline. CsvReader
// (runtime/telemetry/csv_reader.h) reads it.
std::string CsvLine(const std::vector<std::string>& cells);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_TEXT_H_
