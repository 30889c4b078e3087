// The fields of a line of a CSV file, and the numbers in them. Pure; any thread.
#ifndef TETHYS_RUNTIME_DATA_CSV_FIELDS_H_
#define TETHYS_RUNTIME_DATA_CSV_FIELDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace tethys {

// Takes fields off the front of a line, without blanks and quotes around them. A delimiter within quotes is
// part of the field. A quote that is not closed stays part of its field.
class CsvFields {
 public:
  CsvFields(absl::string_view line, char delimiter) : rest_(line), delimiter_(delimiter) {}

  bool more() const { return more_; }
  absl::string_view Next() {
    if (!rest_.empty() && (rest_[0] == '"' || rest_[0] == ' ')) return NextQuoted();
    return NextUpTo(rest_.find(delimiter_));
  }

 private:
  absl::string_view NextUpTo(size_t end) {
    const absl::string_view field = rest_.substr(0, end);
    more_ = end != absl::string_view::npos;
    rest_ = more_ ? rest_.substr(end + 1) : absl::string_view();
    return absl::StripAsciiWhitespace(field);
  }
  absl::string_view NextQuoted();

  absl::string_view rest_;
  const char delimiter_;
  bool more_ = true;
};

int64_t CountCsvFields(absl::string_view line, char delimiter);

// Parses the whole field as a float; returns false if it is no number. Values beyond float32's range become
// infinite or 0.
bool ParseCsvFloat(absl::string_view field, float* value);

// Parses the whole field as an integer, which may be written as "3" or "3.00e+00"; returns false if the field
// is no integer.
bool ParseCsvInteger(absl::string_view field, int64_t* value);

// The kind of a field that is no plain number.
enum class CsvFieldKind {
  kEmpty,
  kMissing,  // A mark of a missing value, such as "NA", "null" or "?".
  // A number with a mistake, or in the notation of another country: "2O", "1,5", "1;2;0", a typographic
  // minus.
  kNearNumber,
  kName,  // Anything else.
};
CsvFieldKind KindOfField(absl::string_view field);

// The reason why a field is refused, and the remedy: "is no number: its decimal comma must be a point".
// Requires that ParseCsvFloat refuses the field. `delimiter` is the delimiter of the file.
std::string FaultOfField(absl::string_view field, char delimiter);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CSV_FIELDS_H_
