#include "deploy/live/live_mark.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tethys {
namespace {

// Parses digits only: SimpleAtoi alone would accept signs and spaces, too.
template <typename Number>
bool ParseDigits(absl::string_view text, Number& number) {
  const auto is_digit = [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); };
  return absl::c_all_of(text, is_digit) && absl::SimpleAtoi(text, &number);
}

}  // namespace

std::string MarkText(const LiveMark& mark) {
  return absl::StrCat(mark.generation, ".", mark.points, ".", mark.epochs);
}

absl::StatusOr<LiveMark> ParseMark(absl::string_view text) {
  LiveMark mark;
  if (text.empty()) return mark;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (parts.size() == 3 && ParseDigits(parts[0], mark.generation) && ParseDigits(parts[1], mark.points) &&
      ParseDigits(parts[2], mark.epochs)) {
    return mark;
  }
  return absl::InvalidArgumentError("a mark is three whole numbers, such as 1234.56.7");
}

}  // namespace tethys
