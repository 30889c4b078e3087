#include "runtime/telemetry/csv_reader.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {

CsvReader::CsvReader(absl::string_view text) : rest_(text) {
  std::vector<absl::string_view> header;
  if (!TakeLine(header)) return;
  width_ = header.size();
  for (size_t i = 0; i < header.size(); ++i) columns_[std::string(header[i])] = i;
}

// A cell is quoted if it begins with a quote; quotes inside are doubled.
bool CsvReader::TakeQuoted(std::vector<absl::string_view>& cells) {
  cells.clear();
  size_t at = 0;
  const auto ends = [this](size_t i) {
    return i >= rest_.size() || rest_[i] == ',' || rest_[i] == '\n' || rest_.substr(i, 2) == "\r\n";
  };
  while (true) {
    const size_t begin = at;
    if (at < rest_.size() && rest_[at] == '"') {
      std::string& cell = unquoted_.emplace_back();
      for (++at;; ++at) {
        const size_t quote = rest_.find('"', at);
        if (quote == absl::string_view::npos) return false;
        absl::StrAppend(&cell, rest_.substr(at, quote - at));
        at = quote + 1;
        if (at >= rest_.size() || rest_[at] != '"') break;
        cell += '"';
      }
      if (!ends(at)) return false;
      cells.push_back(cell);
    } else {
      while (!ends(at)) ++at;
      cells.push_back(rest_.substr(begin, at - begin));
    }
    if (at < rest_.size() && rest_[at] == ',') {
      ++at;
      continue;
    }
    const size_t line_end = rest_.find('\n', at);
    rest_ = line_end == absl::string_view::npos ? absl::string_view() : rest_.substr(line_end + 1);
    return true;
  }
}

bool CsvReader::TakeLine(std::vector<absl::string_view>& cells) {
  if (rest_.empty()) return false;
  const size_t end = rest_.find('\n');
  unquoted_.clear();
  if (rest_.substr(0, end).find('"') != absl::string_view::npos && TakeQuoted(cells)) return true;
  cells = absl::StrSplit(absl::StripSuffix(rest_.substr(0, end), "\r"), ',');
  rest_ = end == absl::string_view::npos ? absl::string_view() : rest_.substr(end + 1);
  return true;
}

bool CsvReader::Next() {
  while (TakeLine(cells_)) {
    if (cells_.size() == width_) return true;
  }
  return false;
}

absl::string_view CsvReader::Text(const std::string& column) const {
  const auto found = columns_.find(column);
  return found == columns_.end() ? absl::string_view() : cells_[found->second];
}

double CsvReader::Number(const std::string& column) const {
  double value = 0;
  return absl::SimpleAtod(Text(column), &value) && std::isfinite(value) ? value : 0;
}

int64_t CsvReader::Integer(const std::string& column) const {
  int64_t value = 0;
  return absl::SimpleAtoi(Text(column), &value) ? value : 0;
}

}  // namespace tethys
