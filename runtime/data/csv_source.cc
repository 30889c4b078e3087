// Text files with one sample per line: numbers, separated by one character (csv_lines.h). Lines are parsed
// when they are read.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "runtime/base/empty_file.h"
#include "runtime/data/csv_fields.h"
#include "runtime/data/csv_header.h"
#include "runtime/data/csv_lines.h"
#include "runtime/data/formats.h"
#include "runtime/data/known_format.h"
#include "runtime/data/sample_files.h"

namespace tethys {
namespace {

constexpr size_t kMostShown = 40;  // The most characters of a field that an error shows.

// ------------------------------------------------------------------------------------------ samples

// The settings with which the lines of a part are read.
struct Reading {
  char delimiter = ',';
  LabelRules rules;
  int64_t columns = 0;
  int64_t label = 0;   // The first column with a label.
  int64_t labels = 1;  // The number of columns with labels.
  SampleSpec spec;

  bool IsLabel(int64_t column) const { return column >= label && column < label + labels; }
};

absl::Status BadField(const std::string& name, int64_t column, absl::string_view field,
                      absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(name, ", column ", column, " (counted from 0): \"",
                                                 absl::Utf8SafeCEscape(field.substr(0, kMostShown)),
                                                 field.size() > kMostShown ? "..." : "", "\" ", why));
}

absl::Status ParseFinite(absl::string_view field, int64_t column, char delimiter,
                         absl::FunctionRef<std::string()> name, uint8_t* out) {
  float value = 0;
  if (!ParseCsvFloat(field, &value)) return BadField(name(), column, field, FaultOfField(field, delimiter));
  if (!std::isfinite(value)) return BadField(name(), column, field, "is not finite: values must be finite");
  std::memcpy(out, &value, sizeof(value));
  return absl::OkStatus();
}

absl::Status ParseByte(absl::string_view field, int64_t column, absl::FunctionRef<std::string()> name,
                       uint8_t* out) {
  int64_t value = 0;
  if (!ParseCsvInteger(field, &value) || value < 0 || value > 255) {
    return BadField(name(), column, field,
                    "is no integer from 0 to 255: correct it, or leave data.csv.bytes out");
  }
  *out = static_cast<uint8_t>(value);
  return absl::OkStatus();
}

// The reason why a field is no class, and the remedy.
absl::string_view FaultOfClass(absl::string_view field) {
  static constexpr char kNoClass[] =
      "is no class (a class is an integer): correct it, or name the right column in data.csv.label_column";
  switch (KindOfField(field)) {
    case CsvFieldKind::kEmpty:
      return "is no class (a class is an integer): the label, or everything after the line's last separator, "
             "is missing; fill it in, or remove separators at the ends of lines";
    case CsvFieldKind::kName:
      return "is no class (a class is an integer): number the classes from 0 on, as pandas does by "
             "column.astype('category').cat.codes, or name the right column in data.csv.label_column";
    default:
      return kNoClass;
  }
}

absl::Status ParseClass(absl::string_view field, int64_t column, const LabelRules& rules,
                        absl::FunctionRef<std::string()> name, int32_t* out) {
  int64_t label = 0;
  if (!ParseCsvInteger(field, &label)) return BadField(name(), column, field, FaultOfClass(field));
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
  CsvFields fields(line, reading.delimiter);
  for (; fields.more() && column < reading.columns; ++column) {
    const absl::string_view field = fields.Next();
    if (!reading.IsLabel(column)) {
      if (values == nullptr) continue;
      TETHYS_RETURN_IF_ERROR(bytes ? ParseByte(field, column, name, values)
                                   : ParseFinite(field, column, reading.delimiter, name, values));
      values += value_bytes;
    } else if (labels != nullptr) {
      TETHYS_RETURN_IF_ERROR(reading.rules.targets ? ParseFinite(field, column, reading.delimiter, name,
                                                                 reinterpret_cast<uint8_t*>(labels))
                                                   : ParseClass(field, column, reading.rules, name, labels));
      ++labels;
    }
  }
  if (column == reading.columns && !fields.more()) return absl::OkStatus();
  const int64_t count = CountCsvFields(line, reading.delimiter);
  return absl::InvalidArgumentError(absl::StrCat(name(), " has ", count, count == 1 ? " column" : " columns",
                                                 ", but the first sample has ", reading.columns,
                                                 ": all lines must have the same number of columns"));
}

// A file of a part. If the file has a header, samples follow it.
struct File {
  CsvLines lines;
  int64_t header = 0;  // Number of lines of the header.
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

int64_t BytesHeld(const proto::Data&, const SampleSpec&) { return sizeof(int64_t); }  // A line's position.

// True, because parsing a line takes far longer than reading values that were parsed before.
bool Unpacks(const proto::Data&, DataPart) { return true; }

// Finds the columns of labels and the shape of the values from the number of columns of the first sample.
absl::Status ResolveColumns(const proto::Csv& csv, const std::string& name, absl::string_view line,
                            Reading& reading) {
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
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    const size_t other = text.find_first_of(";\t|,");
    const bool split = other != absl::string_view::npos && text[other] != reading.delimiter;
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has no column besides the column of the label: ",
        split ? absl::StrCat("write data.csv.delimiter: \"", absl::CEscape(text.substr(other, 1)), "\"")
              : "look at data.csv.delimiter"));
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

// A remedy for an error in a file's first line, if the line may be meant as a header; otherwise empty.
std::string HeaderRemedy(const proto::Csv& csv, int64_t header, absl::string_view line) {
  if (csv.has_header_lines() || header > 0) return "";
  for (CsvFields fields(line, csv.delimiter().empty() ? ',' : csv.delimiter()[0]); fields.more();) {
    float ignored = 0;
    if (!ParseCsvFloat(fields.Next(), &ignored)) {
      return "; a first line with a number is read as a sample: if it is a header, write "
             "data.csv.header_lines: 1";
    }
  }
  return "";
}

// The number of lines before the first sample.
absl::StatusOr<int64_t> HeaderLines(const proto::Csv& csv, const CsvLines& lines, char delimiter) {
  if (csv.has_header_lines()) return std::min<int64_t>(csv.header_lines(), lines.size());
  TETHYS_ASSIGN_OR_RETURN(absl::string_view line, lines.Read(0));
  const int64_t first = IsSeparatorLine(line) ? 1 : 0;
  if (first == lines.size()) return first;
  TETHYS_ASSIGN_OR_RETURN(line, lines.Read(first));
  return first + (IsCsvHeader(line, delimiter) ? 1 : 0);
}

absl::Status CheckIsText(const std::string& path, const ByteSource& bytes) {
  std::vector<uint8_t> begin(std::min(kTellingBytes, bytes.size()));
  TETHYS_RETURN_IF_ERROR(bytes.ReadAt(0, absl::MakeSpan(begin)));
  const KnownFormat format = FormatOfBytes(begin);
  // A file that contains only text is accepted even if its beginning matches a binary format, because the
  // first name of a header may be PAR1 or GIF89.
  if (format.name.empty() || (!format.text && HoldsTextOnly(begin))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the file is not text with one sample per line, but ", format.name, ": ", format.remedy));
}

// Opens a file. The first file of a part determines the columns. IsEmptyFile: the file has no samples.
absl::StatusOr<Files::Opened> OpenOne(const proto::Csv& csv, const std::string& path,
                                      std::shared_ptr<const ByteSource> bytes, Reading& reading) {
  TETHYS_RETURN_IF_ERROR(CheckIsText(path, *bytes));
  TETHYS_ASSIGN_OR_RETURN(CsvLines lines, CsvLines::Find(std::move(bytes)));
  TETHYS_RETURN_IF_ERROR(lines.LeaveOutBlankEnd(reading.delimiter));
  if (lines.size() == 0) {
    return AsEmptyFile(absl::InvalidArgumentError(
        absl::StrCat(path, ": the file has only blank lines: write one sample per line")));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t header, HeaderLines(csv, lines, reading.delimiter));
  if (lines.size() == header) {
    return AsEmptyFile(absl::InvalidArgumentError(
        csv.has_header_lines()
            ? absl::StrCat(path, ": all of its lines are left out by data.csv.header_lines")
            : absl::StrCat(path, ": its only line has words, so it is a header: the file holds no samples")));
  }
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view line, lines.Read(header));
  const std::string name = lines.Name(header);
  if (reading.columns == 0) {
    reading.columns = CountCsvFields(line, reading.delimiter);
    TETHYS_RETURN_IF_ERROR(ResolveColumns(csv, name, line, reading));
  }
  // Parses the first sample, so that a mistake that all samples share is found before a job starts.
  std::vector<uint8_t> values(reading.spec.bytes());
  std::vector<int32_t> labels(reading.spec.labels.elements());
  const absl::Status parsed = ParseLine(
      line, reading, [&] { return name; }, values.data(), labels.data());
  if (!parsed.ok()) {
    return absl::Status(parsed.code(), absl::StrCat(parsed.message(), HeaderRemedy(csv, header, line)));
  }
  const int64_t samples = lines.size() - header;
  return Files::Opened{.file = {.lines = std::move(lines), .header = header}, .samples = samples};
}

// Notes how many lines are left out as headers, and possible mistakes in the first file.
absl::Status AddNotes(const Files& files, const Reading& reading, std::vector<std::string>& notes) {
  constexpr size_t kMostShownOfHeader = 60;
  int64_t headers = 0;
  const File* with_header = nullptr;
  for (const File& file : files.files()) {
    headers += file.header;
    if (file.header > 0 && with_header == nullptr) with_header = &file;
  }
  if (with_header != nullptr) {
    TETHYS_ASSIGN_OR_RETURN(const absl::string_view line, with_header->lines.Read(0));
    notes.push_back(absl::StrCat(
        headers, headers == 1 ? " header line is left out: " : " header lines are left out: ",
        with_header->lines.Name(0), ": ", absl::Utf8SafeCEscape(line.substr(0, kMostShownOfHeader)),
        line.size() > kMostShownOfHeader ? "..." : "", headers > 1 ? ", ..." : ""));
  }
  const File& first = files.files().front();
  TETHYS_ASSIGN_OR_RETURN(const auto more, CsvBeginningNotes(first.lines, first.header,
                                                             {.delimiter = reading.delimiter,
                                                              .count = reading.columns,
                                                              .first_is_label = reading.IsLabel(0)}));
  notes.insert(notes.end(), more.begin(), more.end());
  return absl::OkStatus();
}

// Opens the files of a part, and sets `reading`.
absl::StatusOr<Files> OpenFiles(const proto::Data& data, DataPart part, const LabelRules& rules,
                                Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(reading, ReadingOf(data.csv(), rules));
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Lists::Paths(data, part));
  return Files::OpenAll(paths, [&](const std::string& path, std::shared_ptr<const ByteSource> bytes) {
    return OpenOne(data.csv(), path, std::move(bytes), reading);
  });
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  Reading reading;
  TETHYS_ASSIGN_OR_RETURN(Files files, OpenFiles(data, part, rules, reading));
  return std::make_shared<CsvSource>(std::move(files), std::move(reading));
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  Reading reading;
  TETHYS_ASSIGN_OR_RETURN(Files files, OpenFiles(data, part, rules, reading));
  DataHeader header = files.Header(reading.spec);
  TETHYS_RETURN_IF_ERROR(AddNotes(files, reading, header.notes));
  const auto source = std::make_shared<CsvSource>(std::move(files), std::move(reading));
  header.open_labels = [source]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> { return source; };
  return header;
}

}  // namespace

const DataFormat kCsvFormat = {.kind = proto::Data::kCsv,
                               .has = Lists::Has,
                               .files = Lists::Paths,
                               .place = Lists::Place,
                               .bytes_held = BytesHeld,
                               .unpacks = Unpacks,
                               .read_header = ReadHeader,
                               .open = Open};

}  // namespace tethys
