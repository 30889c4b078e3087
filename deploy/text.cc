#include "deploy/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace tethys {
namespace {

bool StartsCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::string Padded(const std::string& text, int width, bool left) {
  const std::string padding(std::max(0, width - DisplayWidth(text)), ' ');
  return left ? absl::StrCat(text, padding) : absl::StrCat(padding, text);
}

std::string Line(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                 const std::vector<int>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : "  ", Padded(cells[i], widths[i], columns[i].left));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return absl::StrCat(line, "\n");
}

}  // namespace

std::string CountText(int64_t count) {
  std::string digits = std::to_string(count);
  const int first = count < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, 1, ',');
  return digits;
}

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  const bool fraction = unit > 0 && std::abs(value) < 10;
  return absl::StrFormat("%.*f %s", fraction ? 1 : 0, value, kUnits[unit]);
}

std::string DurationText(double seconds) {
  const int64_t whole = std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, 3.6e8)) : 0;
  const int64_t minutes = whole / 60;
  if (minutes < 60) return absl::StrFormat("%d:%02d", minutes, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", minutes / 60, minutes % 60, whole % 60);
}

int DisplayWidth(absl::string_view text) { return std::count_if(text.begin(), text.end(), StartsCodePoint); }

std::string Truncate(absl::string_view text, int columns) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (StartsCodePoint(text[i]) && ++width > columns) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

std::string Table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  size_t header_lines = 0;
  std::vector<int> widths(columns.size(), 0);
  for (size_t i = 0; i < columns.size(); ++i) {
    header_lines = std::max(header_lines, columns[i].header.size());
    for (const std::string& line : columns[i].header) widths[i] = std::max(widths[i], DisplayWidth(line));
    for (const auto& row : rows) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string table;
  for (size_t line = 0; line < header_lines; ++line) {
    std::vector<std::string> cells;
    for (const Column& column : columns) {
      const size_t above = header_lines - column.header.size();
      cells.push_back(line < above ? "" : column.header[line - above]);
    }
    absl::StrAppend(&table, Line(cells, columns, widths));
  }
  for (const auto& row : rows) absl::StrAppend(&table, Line(row, columns, widths));
  return table;
}

std::string CsvLine(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += cells[i];
    } else {
      absl::StrAppend(&line, "\"", absl::StrReplaceAll(cells[i], {{"\"", "\"\""}}), "\"");
    }
  }
  return absl::StrCat(line, "\n");
}

}  // namespace tethys
