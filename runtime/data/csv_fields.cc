#include "runtime/data/csv_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tethys {
namespace {

constexpr size_t kLongestNumber = 64;  // In bytes. A longer field is not taken for a number with a mistake.

bool ParsesAsFloat(absl::string_view text) {
  float ignored;
  return ParseCsvFloat(text, &ignored);
}

bool HasDigit(absl::string_view text) { return std::any_of(text.begin(), text.end(), absl::ascii_isdigit); }

bool HasOnly(absl::string_view text, absl::string_view allowed) {
  return text.find_first_not_of(allowed) == absl::string_view::npos;
}

// Typographic characters that other programs write in numbers: minus signs and non-breaking spaces.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 10> kTypography = {
    {{"\xe2\x88\x92", "-"},
     {"\xe2\x80\x93", "-"},
     {"\xe2\x80\x92", "-"},
     {"\xef\xbc\x8d", "-"},
     {"\xe2\x80\x91", "-"},
     {"\xc2\xa0", ""},
     {"\xe2\x80\xaf", ""},
     {"\xe2\x80\x89", ""},
     {"\xe2\x80\x8b", ""},
     {"\xef\xbb\xbf", ""}}};

std::string WithoutTypography(absl::string_view field) { return absl::StrReplaceAll(field, kTypography); }

// Replaces capital and small O by 0, capital I and small L by 1.
std::string WithDigitsForLetters(absl::string_view field) {
  return absl::StrReplaceAll(field, {{"O", "0"}, {"o", "0"}, {"I", "1"}, {"l", "1"}});
}

// True if the field has a decimal comma: "1.234,5" or "1,5".
bool HasDecimalComma(absl::string_view field) {
  const size_t comma = field.rfind(',');
  if (comma == absl::string_view::npos || std::count(field.begin(), field.end(), ',') != 1) return false;
  return ParsesAsFloat(absl::StrReplaceAll(field, {{".", ""}, {" ", ""}, {",", "."}}));
}

bool IsNearNumber(absl::string_view field) {
  if (field.size() > kLongestNumber && !HasOnly(field, "0123456789+-.,;:|/ \t\reE")) return false;
  const std::string plain = WithoutTypography(field);
  if (!HasDigit(plain)) return false;
  // Accepts numbers with separators, several numbers in one field, dates and times.
  const bool begins =
      // Names such as e1 and _1 are excluded by their first character.
      absl::string_view("0123456789+-.'").find(plain[0]) != absl::string_view::npos;
  if (begins && HasOnly(plain, "0123456789+-.,;:|/ \t\r'_%eE")) return true;
  if (ParsesAsFloat(WithDigitsForLetters(plain))) return true;
  // Accepts a number with a sign of currency or of percent.
  const std::string bare = absl::StrReplaceAll(plain, {{"$", ""},
                                                       {"\xe2\x82\xac", ""},
                                                       {"\xc2\xa3", ""},
                                                       {",", ""},
                                                       {" ", ""},
                                                       {"%", ""},
                                                       {"\"", ""},
                                                       {"'", ""}});
  if (ParsesAsFloat(bare)) return true;
  int64_t hexadecimal = 0;
  return absl::StartsWithIgnoreCase(plain, "0x") && absl::SimpleHexAtoi(plain, &hexadecimal);
}

}  // namespace

absl::string_view CsvFields::NextQuoted() {
  const size_t open = rest_.find_first_not_of(' ');
  if (open == absl::string_view::npos || rest_[open] != '"') return NextUpTo(rest_.find(delimiter_));
  size_t close = rest_.find('"', open + 1);
  // Two quotes within a quoted field stand for one quote.
  while (close != absl::string_view::npos && close + 1 < rest_.size() && rest_[close + 1] == '"') {
    close = rest_.find('"', close + 2);
  }
  if (close == absl::string_view::npos) return NextUpTo(rest_.find(delimiter_));
  const size_t end = rest_.find(delimiter_, close + 1);
  const absl::string_view behind =
      rest_.substr(close + 1, end == absl::string_view::npos ? end : end - close - 1);
  const absl::string_view field = rest_.substr(open + 1, close - open - 1);
  const absl::string_view whole = NextUpTo(end);
  return absl::StripAsciiWhitespace(behind).empty() ? absl::StripAsciiWhitespace(field) : whole;
}

int64_t CountCsvFields(absl::string_view line, char delimiter) {
  int64_t count = 0;
  for (CsvFields fields(line, delimiter); fields.more(); ++count) fields.Next();
  return count;
}

bool ParseCsvFloat(absl::string_view field, float* value) {
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

bool ParseCsvInteger(absl::string_view field, int64_t* value) {
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

CsvFieldKind KindOfField(absl::string_view field) {
  if (field.empty()) return CsvFieldKind::kEmpty;
  static constexpr absl::string_view kMissing[] = {
      "na",    "n/a",     "#n/a",    "<na>",  "null",   "none", "nil", "nan", "-nan", "1.#qnan", "-1.#ind",
      "#num!", "#value!", "#div/0!", "#ref!", "#name?", "?",    "-",   "--",  ".",    "\\n",     "missing"};
  const auto is_field = [&](absl::string_view mark) { return absl::EqualsIgnoreCase(field, mark); };
  if (std::any_of(std::begin(kMissing), std::end(kMissing), is_field)) return CsvFieldKind::kMissing;
  return IsNearNumber(field) ? CsvFieldKind::kNearNumber : CsvFieldKind::kName;
}

std::string FaultOfField(absl::string_view field, char delimiter) {
  static constexpr char kNoNumber[] = "is no number";
  switch (KindOfField(field)) {
    case CsvFieldKind::kEmpty:
      return absl::StrCat(kNoNumber, ": a value is missing; fill it in, or leave the sample out");
    case CsvFieldKind::kMissing:
      return absl::StrCat(kNoNumber, " but a mark of a missing value: fill it in, or leave the sample out");
    case CsvFieldKind::kName:
      return absl::StartsWith(field, "\"") ? absl::StrCat(kNoNumber, ": its quotes are not closed")
                                           : kNoNumber;
    case CsvFieldKind::kNearNumber:
      break;
  }
  if (absl::StrContains(field, '\r')) {
    return absl::StrCat(kNoNumber, ": lines end in carriage returns alone; save the file with line feeds");
  }
  for (const char other : {';', '\t', '|', ','}) {
    if (other == delimiter || !absl::StrContains(field, other) || (other == ',' && HasDecimalComma(field)))
      continue;
    return absl::StrCat(kNoNumber, ": the file's delimiter seems to be \"",
                        other == '\t' ? "\\t" : std::string(1, other), "\": name it in data.csv.delimiter");
  }
  if (HasDecimalComma(field)) return absl::StrCat(kNoNumber, ": its decimal comma must be a point");
  if (WithoutTypography(field) != field) {
    return absl::StrCat(kNoNumber, ": it has a typographic minus sign or space; write - and no space");
  }
  return absl::StrCat(kNoNumber, ": correct it");
}

}  // namespace tethys
