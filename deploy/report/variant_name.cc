#include "deploy/report/variant_name.h"

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

constexpr int kLetters = 26;
constexpr size_t kMostLetters = 3;

const std::string& Meaning(const proto::ReportVariant& variant) {
  return variant.short_name().empty() ? variant.name() : variant.short_name();
}

}  // namespace

std::string VariantLetters(int index) {
  std::string letters;
  for (int rest = index; rest >= 0; rest = rest / kLetters - 1) {
    letters.insert(letters.begin(), static_cast<char>('A' + rest % kLetters));
  }
  return letters;
}

absl::optional<int> VariantIndex(absl::string_view letters) {
  if (letters.empty() || letters.size() > kMostLetters) return absl::nullopt;
  int index = 0;
  for (const char letter : letters) {
    if (letter < 'A' || letter > 'Z') return absl::nullopt;
    index = index * kLetters + (letter - 'A') + 1;
  }
  return index - 1;
}

const std::string& NameInText(const proto::ReportVariant& variant) {
  return variant.label().empty() ? Meaning(variant) : variant.label();
}

std::string IntroducedName(const proto::ReportVariant& variant) {
  if (variant.label().empty()) return NameInText(variant);
  return absl::StrCat(variant.label(), " (", Meaning(variant), ")");
}

std::string LegendText(const proto::Report& report) {
  std::string text;
  for (const proto::ReportVariant& variant : report.variant()) {
    if (variant.label().empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", variant.label(), ": ", Meaning(variant));
  }
  return text;
}

}  // namespace tethys
