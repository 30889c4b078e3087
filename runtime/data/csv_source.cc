// Text files with a sample a line: numbers, separated by one character (csv_lines.h). Lines are parsed when
// they are read.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "runtime/data/csv_lines.h"
#include "runtime/data/formats.h"
#include "runtime/data/sample_files.h"
#include "runtime/data/unpacked_file.h"

namespace tethys {
namespace {

constexpr size_t kMostShown = 40;  // Characters of a field, in errors.

// ------------------------------------------------------------------------------------------ numbers

// The whole field as a float; false if it is no number. What is beyond float32's range becomes infinite or 0.
bool ParseFloat(absl::string_view field, float* value) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  const char* const end = field.data() + field.size();
  const auto [at, error] = std::from_chars(field.data(), end, *value);
  if (error == std::errc()) return at == end;
  if (error != std::errc::result_out_of_range || at != end) return false;
  const absl::from_chars_result near = absl::from_chars(field.data(), end, *value);
  if (near.ptr != end) return false;
  if (std::abs(*value) > 1) *value = std::copysign(std::numeric_limits<float>::infinity(), *value);
  return true;
}

// The whole field as an integer, which may be written as "3" or "3.00e+00".
bool ParseInteger(absl::string_view field, int64_t* value) {
  const char* const end = field.data() + field.size();
  const auto [at, error] = std::from_chars(field.data(), end, *value);
  if (error == std::errc() && at == end) return true;
  constexpr double kMost = 1ll << 53;
  double number = 0;
  if (!absl::SimpleAtod(field, &number) || !(std::abs(number) <= kMost) || number != std::floor(number)) {
    return false;
  }
  *value = static_cast<int64_t>(number);
  return true;
}

// Takes fields off the front of a line, without blanks around them.
class Fields {
 public:
  Fields(absl::string_view line, char delimiter) : rest_(line), delimiter_(delimiter) {}

  bool more() const { return more_; }
  absl::string_view Next() {
    const size_t end = rest_.find(delimiter_);
    const absl::string_view field = rest_.substr(0, end);
    more_ = end != absl::string_view::npos;
    rest_ = more_ ? rest_.substr(end + 1) : absl::string_view();
    return absl::StripAsciiWhitespace(field);
  }

 private:
  absl::string_view rest_;
  const char delimiter_;
  bool more_ = true;
};

int64_t CountFields(absl::string_view line, char delimiter) {
  return 1 + std::count(line.begin(), line.end(), delimiter);
}

// A first line with a word is a header.
bool IsHeader(absl::string_view line, char delimiter) {
  for (Fields fields(line, delimiter); fields.more();) {
    float ignored;
    if (!ParseFloat(fields.Next(), &ignored)) return true;
  }
  return false;
}

// ------------------------------------------------------------------------------------------ samples

// How the lines of a part are read.
struct Reading {
  char delimiter = ',';
  LabelRules rules;
  int64_t columns = 0;
  int64_t label = 0;   // The first column with a label.
  int64_t labels = 1;  // Columns with labels.
  SampleSpec spec;

  bool IsLabel(int64_t column) const { return column >= label && column < label + labels; }
};

absl::Status BadField(const std::string& name, int64_t column, absl::string_view field,
                      absl::string_view why) {
  const bool quoted = field.find('"') != absl::string_view::npos;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ", column ", column, " (counted from 0): \"",
                   absl::CEscape(field.substr(0, kMostShown)), field.size() > kMostShown ? "..." : "", "\" ",
                   quoted ? "is quoted: quotes are not read, write the number without them" : why));
}

absl::Status ParseFinite(absl::string_view field, int64_t column, absl::FunctionRef<std::string()> name,
                         uint8_t* out) {
  float value = 0;
  if (!ParseFloat(field, &value)) return BadField(name(), column, field, "is no number");
  if (!std::isfinite(value)) return BadField(name(), column, field, "is not finite: values must be finite");
  std::memcpy(out, &value, sizeof(value));
  return absl::OkStatus();
}

absl::Status ParseByte(absl::string_view field, int64_t column, absl::FunctionRef<std::string()> name,
                       uint8_t* out) {
  int64_t value = 0;
  if (!ParseInteger(field, &value) || value < 0 || value > 255) {
    return BadField(name(), column, field,
                    "is no integer from 0 to 255: correct it, or leave data.csv.bytes out");
  }
  *out = static_cast<uint8_t>(value);
  return absl::OkStatus();
}

absl::Status ParseClass(absl::string_view field, int64_t column, const LabelRules& rules,
                        absl::FunctionRef<std::string()> name, int32_t* out) {
  int64_t label = 0;
  if (!ParseInteger(field, &label)) {
    return BadField(name(), column, field,
                    "is no class, which is an integer: correct it, or name the right column in "
                    "data.csv.label_column");
  }
  if (!rules.Accepts(label)) {
    return BadField(name(), column, field, absl::StrCat("is a label ", rules.OutsideText()));
  }
  *out = static_cast<int32_t>(label);
  return absl::OkStatus();
}

// Reads a line into `values` and `labels`, of which either may be null.
absl::Status ParseLine(absl::string_view line, const Reading& reading, absl::FunctionRef<std::string()> name,
                       uint8_t* values, int32_t* labels) {
  const bool bytes = reading.spec.type == ValueType::kByte;
  const int64_t value_bytes = BytesOf(reading.spec.type);
  int64_t column = 0;
  for (Fields fields(line, reading.delimiter); fields.more(); ++column) {
    const absl::string_view field = fields.Next();
    if (column >= reading.columns) break;
    if (!reading.IsLabel(column)) {
      if (values == nullptr) continue;
      TETHYS_RETURN_IF_ERROR(bytes ? ParseByte(field, column, name, values)
                                   : ParseFinite(field, column, name, values));
      values += value_bytes;
    } else if (labels != nullptr) {
      TETHYS_RETURN_IF_ERROR(reading.rules.targets
                                 ? ParseFinite(field, column, name, reinterpret_cast<uint8_t*>(labels))
                                 : ParseClass(field, column, reading.rules, name, labels));
      ++labels;
    }
  }
  const int64_t count = CountFields(line, reading.delimiter);
  if (count == reading.columns) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name(), " has ", count, count == 1 ? " column" : " columns",
                                                 ", the first sample has ", reading.columns,
                                                 ": all lines must have the same"));
}

// A file of a part. Its samples follow its header, if it has one.
struct File {
  CsvLines lines;
  int64_t header = 0;  // Lines.
};
using Files = SampleFiles<File>;

class CsvSource final : public SampleSource {
 public:
  CsvSource(Files files, Reading reading)
      : SampleSource(reading.spec, files.samples()), files_(std::move(files)), reading_(std::move(reading)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    const Files::Place place = files_.Find(index);
    const CsvLines& lines = place.file.lines;
    const int64_t number = place.file.header + place.index;
    TETHYS_ASSIGN_OR_RETURN(const absl::string_view line, lines.Read(number));
    return ParseLine(
        line, reading_, [&] { return lines.Name(number); }, values, labels);
  }

 private:
  const Files files_;
  const Reading reading_;
};

// ------------------------------------------------------------------------------------------ the format

using Lists = FileLists<&proto::Data::csv>;

int64_t BytesHeld(const proto::Data&, const SampleSpec&) { return sizeof(int64_t); }  // The place of a line.

// Finds the columns of labels and the shape of the values, by the number of columns of the first sample.
absl::Status ResolveColumns(const proto::Csv& csv, const std::string& name, Reading& reading) {
  const int64_t column = csv.has_label_column() ? csv.label_column() : -1;
  reading.label = column < 0 ? reading.columns + column : column;
  reading.labels = csv.has_targets() ? csv.targets() : 1;
  if (reading.label < 0 || reading.label + reading.labels > reading.columns) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", reading.columns, " columns, but data.csv.label_column is ", column,
                     reading.labels > 1 ? absl::StrCat(" and data.csv.targets ", reading.labels) : "",
                     ": columns are counted from 0, or from -1 at the end; look at data.csv.delimiter, too"));
  }
  const int64_t values = reading.columns - reading.labels;
  if (values == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has no column but that of the label: look at data.csv.delimiter"));
  }
  SampleSpec& spec = reading.spec;
  spec.shape = csv.shape().empty() ? Shape{values} : Shape(csv.shape().begin(), csv.shape().end());
  const absl::StatusOr<int64_t> elements = ElementCount(spec.shape);
  if (!elements.ok() || *elements != values) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has ", values, " columns besides the label, but data.csv.shape is ", ShapeText(spec.shape)));
  }
  if (reading.rules.targets && reading.labels > 1) spec.labels.shape = Shape{reading.labels};
  return absl::OkStatus();
}

absl::StatusOr<Reading> ReadingOf(const proto::Csv& csv, const LabelRules& rules) {
  if (csv.has_targets() && !rules.targets) {
    return absl::InvalidArgumentError(
        "data.csv.targets is for the mean squared error, but model.loss takes a class for each sample: "
        "remove targets, or write model { loss { mean_squared_error {} } }");
  }
  return Reading{.delimiter = csv.delimiter().empty() ? ',' : csv.delimiter()[0],
                 .rules = rules,
                 .spec = {.shape = {},
                          .labels = {.shape = {}, .targets = rules.targets},
                          .type = csv.bytes() ? ValueType::kByte : ValueType::kFloat}};
}

// Opens a file. The first one of a part decides about the columns.
absl::StatusOr<File> OpenOne(const proto::Data& data, const std::string& path, Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(auto bytes, OpenFile(path));
  TETHYS_ASSIGN_OR_RETURN(const bool gzipped, LooksGzipped(*bytes));
  if (gzipped) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": gzipped: unpack it with gunzip"));
  }
  TETHYS_ASSIGN_OR_RETURN(CsvLines lines, CsvLines::Find(std::move(bytes)));
  TETHYS_ASSIGN_OR_RETURN(absl::string_view line, lines.Read(0));
  const int64_t header = IsHeader(line, reading.delimiter) ? 1 : 0;
  if (lines.size() == header) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its only line has words, so it is a header: the file holds no samples"));
  }
  TETHYS_ASSIGN_OR_RETURN(line, lines.Read(header));
  const std::string name = lines.Name(header);
  if (reading.columns == 0) {
    reading.columns = CountFields(line, reading.delimiter);
    TETHYS_RETURN_IF_ERROR(ResolveColumns(data.csv(), name, reading));
  }
  // Mistakes of a whole file are in its first sample, too, and are found before a job starts.
  std::vector<uint8_t> values(reading.spec.bytes());
  std::vector<int32_t> labels(reading.spec.labels.elements());
  TETHYS_RETURN_IF_ERROR(ParseLine(
      line, reading, [&] { return name; }, values.data(), labels.data()));
  return File{.lines = std::move(lines), .header = header};
}

// Opens the files of a part, and sets how they are read.
absl::StatusOr<Files> OpenFiles(const proto::Data& data, DataPart part, const LabelRules& rules,
                                Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(reading, ReadingOf(data.csv(), rules));
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Lists::Paths(data, part));
  Files files;
  for (const std::string& path : paths) {
    TETHYS_ASSIGN_OR_RETURN(File file, OpenOne(data, path, reading));
    const int64_t count = file.lines.size() - file.header;
    files.Add(path, std::move(file), count);
  }
  return files;
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  Reading reading;
  TETHYS_ASSIGN_OR_RETURN(Files files, OpenFiles(data, part, rules, reading));
  return std::make_shared<CsvSource>(std::move(files), std::move(reading));
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  Reading reading;
  TETHYS_ASSIGN_OR_RETURN(const Files files, OpenFiles(data, part, rules, reading));
  return files.Header(reading.spec);
}

}  // namespace

const DataFormat kCsvFormat = {.kind = proto::Data::kCsv,
                               .has = Lists::Has,
                               .files = Lists::Paths,
                               .place = Lists::Place,
                               .bytes_held = BytesHeld,
                               .read_header = ReadHeader,
                               .open = Open};

}  // namespace tethys
