#include "deploy/first_job/found_table.h"

#include <algorithm>
#include <map>

#include "runtime/data/byte_source.h"
#include "runtime/data/csv_fields.h"
#include "runtime/data/csv_header.h"
#include "runtime/data/csv_lines.h"

namespace tethys {
namespace {

constexpr int64_t kMostLines = 10'000;

// The character that divides the line into the most fields.
char DelimiterOf(absl::string_view line) {
  char delimiter = ',';
  for (const char other : {';', '\t', '|'}) {
    if (CountCsvFields(line, other) > CountCsvFields(line, delimiter)) delimiter = other;
  }
  return delimiter;
}

// Counts the values of one column.
class ColumnCounts {
 public:
  void Add(absl::string_view field) {
    int64_t value = 0;
    if (!ParseCsvInteger(field, &value) || value < 0) {
      column_.integers = false;
    } else {
      column_.most = std::max(column_.most, value);
    }
    ++lines_;
    most_frequent_ = std::max(most_frequent_, ++counts_[std::string(field)]);
  }

  FoundColumn Column() const {
    FoundColumn column = column_;
    column.different = static_cast<int64_t>(counts_.size());
    column.commonest = lines_ == 0 ? 0 : static_cast<double>(most_frequent_) / static_cast<double>(lines_);
    return column;
  }

 private:
  FoundColumn column_;
  std::map<std::string, int64_t> counts_;
  int64_t lines_ = 0, most_frequent_ = 0;
};

bool IsByte(absl::string_view field) {
  int64_t value = 0;
  return ParseCsvInteger(field, &value) && value >= 0 && value <= 255;
}

}  // namespace

absl::StatusOr<FoundTable> LookAtTable(const std::string& path, const std::string& name) {
  FoundTable table = {.name = name};
  TETHYS_ASSIGN_OR_RETURN(auto bytes, OpenFile(path));
  TETHYS_ASSIGN_OR_RETURN(CsvLines lines, CsvLines::Find(std::move(bytes)));
  TETHYS_ASSIGN_OR_RETURN(absl::string_view line, lines.Read(0));
  int64_t begin = IsSeparatorLine(line) ? 1 : 0;
  if (begin < lines.size()) {
    TETHYS_ASSIGN_OR_RETURN(line, lines.Read(begin));
  }
  table.delimiter = DelimiterOf(line);
  table.columns = CountCsvFields(line, table.delimiter);
  if (IsCsvHeader(line, table.delimiter)) {
    for (CsvFields fields(line, table.delimiter); fields.more();) table.header.emplace_back(fields.Next());
    ++begin;
  }
  TETHYS_RETURN_IF_ERROR(lines.LeaveOutBlankEnd(table.delimiter));
  const int64_t samples = lines.size() - begin;
  table.lines = std::clamp<int64_t>(samples, 0, kMostLines);
  table.bytes_between = true;
  ColumnCounts first, last;
  for (int64_t i = 0; i < table.lines; ++i) {
    TETHYS_ASSIGN_OR_RETURN(line, lines.Read(begin + i * samples / table.lines));
    int64_t column = 0;
    for (CsvFields fields(line, table.delimiter); fields.more(); ++column) {
      const absl::string_view field = fields.Next();
      if (column == 0) first.Add(field);
      if (column == table.columns - 1) last.Add(field);
      if (column > 0 && column < table.columns - 1) table.bytes_between &= IsByte(field);
    }
  }
  table.first = first.Column();
  table.last = last.Column();
  return table;
}

}  // namespace tethys
