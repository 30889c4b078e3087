#include "runtime/telemetry/csv_reader.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {

CsvReader::CsvReader(absl::string_view text) : rest_(text) {
  std::vector<absl::string_view> header;
  if (!TakeLine(header)) return;
  width_ = header.size();
  for (size_t i = 0; i < header.size(); ++i) columns_[std::string(header[i])] = i;
}

bool CsvReader::TakeLine(std::vector<absl::string_view>& cells) {
  if (rest_.empty()) return false;
  const size_t end = rest_.find('\n');
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
