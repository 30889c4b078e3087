#include "deploy/text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace tethys {
namespace {

bool StartsCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::string Padded(const std::string& text, int width, bool left) {
  const std::string padding(std::max(0, width - DisplayWidth(text)), ' ');
  return left ? absl::StrCat(text, padding) : absl::StrCat(padding, text);
}

constexpr int kGap = 2;

// Formats the cells of the columns `chosen` as a line.
std::string Line(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                 const std::vector<int>& widths, const std::vector<size_t>& chosen) {
  std::string line;
  for (const size_t i : chosen) {
    absl::StrAppend(&line, i == chosen[0] ? "" : std::string(kGap, ' '),
                    Padded(cells[i], widths[i], columns[i].left));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return absl::StrCat(line, "\n");
}

// Table splits a table wider than `width` into several tables. Returns the columns of each of these tables;
// each begins with the first `keys` columns.
std::vector<std::vector<size_t>> Parts(const std::vector<int>& widths, int width, size_t keys) {
  std::vector<std::vector<size_t>> parts = {{}};
  int used = 0;
  int keys_width = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    const int more = widths[i] + (i == 0 ? 0 : kGap);
    if (width > 0 && used + more > width && parts.back().size() > keys) {
      parts.emplace_back();
      for (size_t key = 0; key < keys; ++key) parts.back().push_back(key);
      used = keys_width;
    }
    parts.back().push_back(i);
    used += more;
    if (i < keys) keys_width = used;
  }
  return parts;
}

}  // namespace

namespace {

// Returns `digits` in groups of three. `digits` may begin with a sign and end with a fraction.
std::string Grouped(std::string digits) {
  const int first = digits[0] == '-' ? 1 : 0;
  const int end = static_cast<int>(std::min(digits.find('.'), digits.size()));
  for (int at = end - 3; at > first; at -= 3) digits.insert(at, 1, ',');
  return digits;
}

}  // namespace

std::string CountText(int64_t count) { return Grouped(std::to_string(count)); }

std::string GroupedText(double value, int decimals) {
  return Grouped(absl::StrFormat("%.*f", decimals, value));
}

std::string DigitsText(double value, int digits) {
  const std::string text = absl::StrFormat("%.*g", digits, value);
  // The rounded value decides: 999.6 with three digits is "1e+03" here.
  const bool large = absl::StrContains(text, "e+") || (std::isfinite(value) && std::abs(value) >= 1000);
  return large ? GroupedText(value, 0) : text;
}

std::string SignedDigitsText(double value, int digits) {
  return absl::StrCat(std::signbit(value) ? "" : "+", DigitsText(value, digits));
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

absl::StatusOr<int64_t> ParseDuration(absl::string_view text, absl::string_view units) {
  static constexpr std::pair<char, int64_t> kSeconds[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  constexpr int64_t kMost = int64_t{36525} * 86400;
  std::vector<std::string> examples;
  for (const auto& [letter, unit] : kSeconds) {
    if (!absl::StrContains(units, letter)) continue;
    examples.push_back(absl::StrCat("30", std::string(1, letter)));
    int64_t count = 0;
    if (text.empty() || text.back() != letter) continue;
    if (!absl::SimpleAtoi(text.substr(0, text.size() - 1), &count) || count <= 0 || count > kMost / unit)
      break;
    return count * unit;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text,
                                                 "' is no time: write a whole number with a unit, such as ",
                                                 absl::StrJoin(examples, " or ")));
}

std::string DurationText(double seconds) {
  const int64_t whole = std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, 3.6e8)) : 0;
  const int64_t minutes = whole / 60;
  if (minutes < 60) return absl::StrFormat("%d:%02d", minutes, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", minutes / 60, minutes % 60, whole % 60);
}

std::string TimeText(double seconds) {
  // The rounded value decides on the unit: no time is shown as "1,000 ms" or "100 s".
  if (const double us = 1e6 * seconds; std::abs(us) < 999.5) return absl::StrFormat("%.3g µs", us);
  if (const double ms = 1e3 * seconds; std::abs(ms) < 999.5) return absl::StrFormat("%.3g ms", ms);
  if (std::abs(seconds) < 99.95) return absl::StrFormat("%.3g s", seconds);
  return DurationText(seconds);
}

int DisplayWidth(absl::string_view text) { return std::count_if(text.begin(), text.end(), StartsCodePoint); }

std::string Truncate(absl::string_view text, int columns) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (StartsCodePoint(text[i]) && ++width > columns) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

std::string Table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows,
                  int width, size_t keys) {
  std::vector<int> widths(columns.size(), 0);
  for (size_t i = 0; i < columns.size(); ++i) {
    for (const std::string& line : columns[i].header) widths[i] = std::max(widths[i], DisplayWidth(line));
    for (const auto& row : rows) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string table;
  for (const std::vector<size_t>& chosen : Parts(widths, width, keys)) {
    size_t header_lines = 0;
    for (const size_t i : chosen) header_lines = std::max(header_lines, columns[i].header.size());
    absl::StrAppend(&table, table.empty() ? "" : "\n");
    for (size_t line = 0; line < header_lines; ++line) {
      std::vector<std::string> cells;
      for (const Column& column : columns) {
        const size_t above = header_lines - std::min(header_lines, column.header.size());
        cells.push_back(line < above ? "" : column.header[line - above]);
      }
      absl::StrAppend(&table, Line(cells, columns, widths, chosen));
    }
    for (const auto& row : rows) absl::StrAppend(&table, Line(row, columns, widths, chosen));
  }
  return table;
}

namespace {

// A word that begins with a per cent sign belongs to the number before it.
std::vector<std::string> WordsOf(absl::string_view paragraph) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(paragraph, ' ', absl::SkipEmpty())) {
    if (word[0] == '%' && !words.empty()) {
      absl::StrAppend(&words.back(), " ", word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

}  // namespace

std::string Wrap(absl::string_view text, absl::string_view indent, int width) {
  std::string wrapped;
  for (absl::string_view paragraph : absl::StrSplit(text, '\n')) {
    std::string line(indent);
    for (const std::string& word : WordsOf(paragraph)) {
      if (line.size() > indent.size() && DisplayWidth(line) + 1 + DisplayWidth(word) > width) {
        absl::StrAppend(&wrapped, line, "\n");
        line = std::string(indent);
      }
      absl::StrAppend(&line, line.size() > indent.size() ? " " : "", word);
    }
    absl::StrAppend(&wrapped, line.size() > indent.size() ? line : "", "\n");
  }
  return wrapped;
}

std::string WrapBeside(absl::string_view lead, absl::string_view text, int indent, int width) {
  std::string wrapped = Wrap(text, std::string(indent, ' '), width);
  return wrapped.replace(0, std::min<size_t>(lead.size(), indent), std::string(lead));
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

std::string NamesText(const std::vector<std::string>& names, absl::string_view last) {
  if (names.size() < 2) return absl::StrJoin(names, "");
  return absl::StrCat(absl::StrJoin(names.begin(), names.end() - 1, ", "), " ", last, " ", names.back());
}

std::string PluralText(int64_t count, const std::string& noun) {
  return absl::StrCat(CountText(count), " ", noun, count == 1 ? "" : "s");
}

}  // namespace tethys
