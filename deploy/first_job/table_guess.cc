// Tables: text files with one sample a line.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "deploy/first_job/format_guesses.h"

namespace tethys {
namespace {

// Names of a column of labels.
constexpr absl::string_view kLabelNames[] = {"label", "labels", "class", "target", "y", "category"};
// A column in which more lines than this have one value tells little, and is rather a constant feature.
constexpr double kMostOfOneValue = 0.95;
// The side of the smallest picture that a table is taken for.
constexpr int64_t kLeastSide = 8;

// True if the column may hold classes: integers that leave few gaps, and that repeat.
bool MayBeClasses(const FoundColumn& column, int64_t lines) {
  return column.integers && column.different >= 2 && column.most <= 2 * column.different &&
         2 * column.different <= lines;
}

struct LabelColumn {
  int64_t index = -1;  // Counted from 0; negative: not found.
  std::string reason;
};

LabelColumn LabelByName(const FoundTable& table) {
  LabelColumn found;
  for (size_t i = 0; i < table.header.size(); ++i) {
    const std::string name = absl::AsciiStrToLower(table.header[i]);
    if (std::find(std::begin(kLabelNames), std::end(kLabelNames), name) == std::end(kLabelNames)) continue;
    if (found.index >= 0) return {};  // Two columns have such names.
    found = {.index = static_cast<int64_t>(i),
             .reason = absl::StrCat("The column is called ", table.header[i], ".")};
  }
  return found;
}

// The column at one end of the table whose values look like classes. If both columns do, a column that hardly
// varies is no label; otherwise the label is the column with fewer values.
LabelColumn LabelByValues(const FoundTable& table) {
  const auto chosen = [](int64_t index, const FoundColumn& column, absl::string_view end) {
    return LabelColumn{index, absl::StrCat("The ", end, " column has ", column.different,
                                           " different integers, up to ", column.most, ".")};
  };
  const LabelColumn first = chosen(0, table.first, "first"),
                    last = chosen(table.columns - 1, table.last, "last");
  const bool first_fits = MayBeClasses(table.first, table.lines),
             last_fits = MayBeClasses(table.last, table.lines);
  if (first_fits != last_fits) return first_fits ? first : last;
  if (!first_fits) return {};
  const bool first_varies = table.first.commonest <= kMostOfOneValue;
  const bool last_varies = table.last.commonest <= kMostOfOneValue;
  if (first_varies != last_varies) return first_varies ? first : last;
  if (table.first.different == table.last.different) return {};
  return table.first.different < table.last.different ? first : last;
}

std::string ColumnText(const FoundTable& table, int64_t index, const FoundColumn& column) {
  const bool named = index < static_cast<int64_t>(table.header.size());
  return absl::StrCat("column ", index, named ? absl::StrCat(" (", table.header[index], ")") : "", " with ",
                      column.different, " different values",
                      column.integers ? "" : ", not all integers from 0 on");
}

// The side of the square pictures that the values of the lines form; 0: they form none.
int64_t SideOfPictures(const FoundTable& table, int64_t label) {
  const bool ends = label == 0 ? table.last.bytes() : label == table.columns - 1 && table.first.bytes();
  const int64_t values = table.columns - 1;
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(values))));
  return ends && table.bytes_between && side >= kLeastSide && side * side == values ? side : 0;
}

}  // namespace

absl::StatusOr<SourceGuess> GuessTable(const FoundData& found) {
  const NamesByPart parts = DivideNames(NamesOf(found.tables));
  const FoundTable& table =
      *std::find_if(found.tables.begin(), found.tables.end(),
                    [&](const FoundTable& each) { return each.name == parts.train[0]; });
  LabelColumn label = LabelByName(table);
  if (label.index < 0) label = LabelByValues(table);
  if (table.columns < 2 || label.index < 0) {
    return CannotGuess(
        found,
        absl::StrCat("holds the table ", table.name,
                     ", in which no column is clearly the label: ", ColumnText(table, 0, table.first), ", ",
                     ColumnText(table, table.columns - 1, table.last)),
        "call the column of the label `label` in a header line, and number the classes from 0 on; for "
        "numeric targets, "
        "write a job with model { loss { mean_squared_error {} } }");
  }
  SourceGuess guess = {.left_out = parts.left_out};
  proto::Csv& fields = *guess.data.mutable_csv();
  WriteLists(found, parts, fields);
  guess.reasons["data.csv"] =
      table.header.empty() ? "The files have no header." : "The first line is a header.";
  fields.set_label_column(static_cast<int32_t>(label.index));
  guess.reasons["data.csv.label_column"] = absl::StrCat(label.reason, " Columns are counted from 0.");
  if (table.delimiter != ',') fields.set_delimiter(std::string(1, table.delimiter));
  const int64_t side = SideOfPictures(table, label.index);
  if (side == 0) return guess;
  fields.set_bytes(true);
  fields.add_shape(side);
  fields.add_shape(side);
  guess.reasons["data.csv.bytes"] = "All values are integers from 0 to 255, like pixels.";
  guess.reasons["data.csv.shape[0]"] = absl::StrCat(table.columns - 1, " values are a square picture.");
  return guess;
}

}  // namespace tethys
