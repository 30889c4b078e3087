#include "deploy/report/headline_words.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {

using proto::ReportValue;
using proto::ReportVariant;

namespace {

// A list of variants that is longer than this, in characters, contains only their letters. The legend
// explains the letters.
constexpr size_t kLongList = 100;
// If half of the interval of a difference is at least this wide, the text states its width.
constexpr double kWideAccuracy = 0.01;

}  // namespace

std::string RunsText(const Runs& runs) {
  return absl::StrCat(runs.fewest, runs.fewest == runs.most ? "" : absl::StrCat(" to ", runs.most),
                      " runs of each");
}

std::string Evidence(const Runs& runs) { return absl::StrCat(" (95 % confidence, ", RunsText(runs), ")."); }

std::string TimesInterval(const Contrast& ratio) {
  if (!ratio.interval.has_value()) return "an unknown number of times";
  return absl::StrFormat("between %.2f and %.2f times", ratio.interval->low, ratio.interval->high);
}

std::string PointsInterval(const Interval& points) {
  return absl::StrFormat("between %.2f and %.2f percentage points", 100 * points.low, 100 * points.high);
}

std::string NoDifferenceText(double half, int runs) {
  if (half < kWideAccuracy) return ", with no measurable difference in accuracy";
  if (runs < kFewRuns) return ", and two runs are too few to compare accuracies";
  return absl::StrFormat(", and these runs may not show differences in accuracy below %.2g percentage points",
                         100 * half);
}

std::string PointsText(const Contrast& points) {
  return absl::StrFormat("%.2f percentage points %s accurate", 100 * std::abs(points.value),
                         points.value > 0 ? "more" : "less");
}

std::string AccuracyText(const ReportVariant& choice, const ReportVariant& rival, Accuracy accuracy,
                         const std::string& choice_is) {
  if (accuracy == nullptr) return "; accuracy was not measured in several runs of each";
  const ReportValue& own = (choice.*accuracy)();
  const ReportValue& other = (rival.*accuracy)();
  const Contrast points = PointsOf(own, other);
  if (!IsShown(own, other)) return NoDifferenceText(HalfOf(points), std::min(own.count(), other.count()));
  return absl::StrCat(choice_is, " ", PointsText(points));
}

std::string AccuracyInterval(const ReportVariant& choice, const ReportVariant& rival, Accuracy accuracy) {
  if (accuracy == nullptr) return "";
  const ReportValue& own = (choice.*accuracy)();
  const ReportValue& other = (rival.*accuracy)();
  if (!IsShown(own, other)) return "";
  const bool more = own.mean() > other.mean();
  return absl::StrCat(" and ", PointsInterval(*(more ? PointsOf(own, other) : PointsOf(other, own)).interval),
                      more ? " more accurate" : " less accurate");
}

std::string NamesOf(const Ranking& variants, absl::string_view last) {
  std::vector<std::string> letters, introduced;
  for (size_t i = 0; i < std::min(variants.size(), kNamed); ++i) {
    letters.push_back(NameInText(*variants[i]));
    introduced.push_back(IntroducedName(*variants[i]));
  }
  if (variants.size() > kNamed) {
    for (auto* names : {&letters, &introduced}) {
      names->push_back(PluralText(static_cast<int64_t>(variants.size() - kNamed), "other"));
    }
  }
  std::string names = NamesText(introduced, last);
  return variants.size() > 2 && names.size() > kLongList ? NamesText(letters, last) : names;
}

std::string FasterText(const ReportVariant& faster, const std::string& its_name, const ReportVariant& choice,
                       const ReportVariant& most, Accuracy accuracy) {
  return absl::StrFormat("%s trains %.2f times as fast, but is %s than %s", its_name,
                         RatioOf(choice.seconds(), faster.seconds()).value,
                         PointsText(PointsOf((faster.*accuracy)(), (most.*accuracy)())), NameInText(most));
}

std::string NameAfter(const std::string& before, const ReportVariant& variant) {
  const std::string introduced = IntroducedName(variant);
  return absl::StrContains(before, introduced) ? NameInText(variant) : introduced;
}

}  // namespace tethys
