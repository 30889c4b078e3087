#include "runtime/data/csv_header.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "runtime/data/csv_fields.h"

namespace tethys {
namespace {

constexpr int64_t kLinesLookedAt = 100;
// If this many lines begin with 0, 1, 2, ..., the first column is taken for row numbers: kFewestNamed lines
// if its name is usual for row numbers, otherwise kFewestCounted.
constexpr int64_t kFewestCounted = 8, kFewestNamed = 3;

// True if a field that is no number consists of digits and letters that resemble digits: "2O", or "O", which
// may be a name.
bool HasLettersForDigits(absl::string_view field) {
  return field.find_first_of("OoIl") != absl::string_view::npos &&
         field.find_first_not_of("OoIl0123456789.+-") == absl::string_view::npos;
}

// The first field of a line as a whole number; false if it is no whole number.
bool FirstNumber(absl::string_view line, char delimiter, int64_t* number) {
  return ParseCsvInteger(CsvFields(line, delimiter).Next(), number);
}

// True if the fields of the line are 0, 1, 2, ... in this order.
bool Counts(absl::string_view line, char delimiter) {
  int64_t next = 0, number = 0;
  for (CsvFields fields(line, delimiter); fields.more(); ++next) {
    if (!ParseCsvInteger(fields.Next(), &number) || number != next) return false;
  }
  return next >= 3;
}

// True for the names that pandas and R give to a column of row numbers: nothing, or "Unnamed: 0".
bool NamesRowNumbers(absl::string_view field) {
  return field.empty() || absl::StartsWithIgnoreCase(field, "unnamed") ||
         absl::EqualsIgnoreCase(field, "index") || absl::EqualsIgnoreCase(field, "id") ||
         absl::EqualsIgnoreCase(field, "rownames");
}

// Looks at the first lines after the header, at most kLinesLookedAt. If they begin with the numbers 0, 1, 2,
// ... or 1, 2, 3, ..., one number per line, returns how many lines these are; otherwise returns 0.
absl::StatusOr<int64_t> RowsCounted(const CsvLines& lines, int64_t header, char delimiter) {
  int64_t first = 0, rows = 0;
  for (; rows < std::min(kLinesLookedAt, lines.size() - header); ++rows) {
    TETHYS_ASSIGN_OR_RETURN(const absl::string_view line, lines.Read(header + rows));
    int64_t number = 0;
    if (!FirstNumber(line, delimiter, &number)) return 0;
    if (rows == 0) first = number;
    if (first < 0 || first > 1 || number != first + rows) return 0;
  }
  return rows;
}

}  // namespace

bool IsCsvHeader(absl::string_view line, char delimiter) {
  int64_t names = 0, letters = 0, mistyped = 0, numbers = 0;
  for (CsvFields fields(line, delimiter); fields.more();) {
    const absl::string_view field = fields.Next();
    int64_t number = 0;
    float value = 0;
    if (ParseCsvInteger(field, &number) && number == numbers) {
      ++numbers;
    } else if (ParseCsvFloat(field, &value)) {
      return false;
    } else if (HasLettersForDigits(field)) {
      ++(field.find_first_of("0123456789") == absl::string_view::npos ? letters : mistyped);
    } else if (const CsvFieldKind kind = KindOfField(field); kind == CsvFieldKind::kNearNumber) {
      return false;
    } else if (kind == CsvFieldKind::kName) {
      ++names;  // A mark of a missing value is neither counted nor refused: Na may mean sodium.
    }
  }
  if (numbers > 0) return numbers > 1 && names > 0;
  return names > 0 || (letters > 0 && mistyped == 0);
}

bool IsSeparatorLine(absl::string_view line) {
  return absl::StartsWithIgnoreCase(line, "sep=") && line.size() == 5;
}

absl::StatusOr<std::vector<std::string>> CsvBeginningNotes(const CsvLines& lines, int64_t header,
                                                           const CsvColumns& columns) {
  std::vector<std::string> notes;
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view line, lines.Read(0));
  if (header == 0 && Counts(line, columns.delimiter)) {
    notes.push_back(
        absl::StrCat(lines.Name(0),
                     " is 0, 1, 2, ..., which is how pandas numbers columns without names; this line is read "
                     "as a sample: if it is a header, write data.csv.header_lines: 1"));
  }
  if (columns.first_is_label) return notes;
  std::string name;  // The name of the first column.
  if (header > 0) {
    TETHYS_ASSIGN_OR_RETURN(const absl::string_view names, lines.Read(header - 1));
    name = std::string(CsvFields(names, columns.delimiter).Next());
    const int64_t count = CountCsvFields(names, columns.delimiter);
    if (count != columns.count && !IsSeparatorLine(names)) {
      notes.push_back(absl::StrCat(lines.Name(header - 1), " names ", count,
                                   count == 1 ? " column" : " columns", ", but samples have ", columns.count,
                                   count + 1 == columns.count
                                       ? ": the first column may be row numbers, as R writes them, and is "
                                         "read as a value of the samples"
                                       : ": look at the file"));
      return notes;
    }
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t rows, RowsCounted(lines, header, columns.delimiter));
  const bool unnamed = header > 0 && (name.empty() || absl::StartsWithIgnoreCase(name, "unnamed"));
  const bool counted = rows >= (header > 0 && NamesRowNumbers(name) ? kFewestNamed : kFewestCounted);
  if (!unnamed && !counted) return notes;
  notes.push_back(absl::StrCat(
      lines.Name(header), ": column 0 ",
      unnamed ? "has no name, like the index that pandas writes" : "counts the rows, as an index does",
      ", and training uses it as a value of the samples: if it is an index, leave it out "
      "(to_csv(index=False))"));
  return notes;
}

}  // namespace tethys
