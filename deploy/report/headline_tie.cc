// The headline of a comparison in which no variant is shown to be better than all others.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/headline_words.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

// Accuracies with a smaller uncertainty than this do not distinguish variants.
constexpr double kVisibleSpread = 0.005;

// Text on the first shown difference in accuracy between two of `tied`; without one, on the largest
// difference that these runs may hide.
std::string TiedAccuracy(const Ranking& tied, Accuracy accuracy) {
  if (accuracy == nullptr) return AccuracyText(*tied[0], *tied[1], accuracy, "");
  double half = 0;
  int fewest = kFewRuns;
  for (const ReportVariant* a : tied) {
    for (const ReportVariant* b : tied) {
      if (a == b) continue;
      const ReportValue& more = (a->*accuracy)();
      const ReportValue& less = (b->*accuracy)();
      half = std::max(half, HalfOf(PointsOf(more, less)));
      fewest = std::min(fewest, RunsOf(more, less).fewest);
      if (!IsShownLess(less, more)) continue;
      return absl::StrCat(AccuracyText(*a, *b, accuracy, absl::StrCat(", but ", NameInText(*a), " is")),
                          " than ", NameInText(*b));
    }
  }
  return NoDifferenceText(half, fewest);
}

// A sentence on how many runs would distinguish the first two variants of a tie, if the measured difference
// is true.
std::string WhatWouldDecide(const proto::Report& report, const Ranking& tied) {
  const ReportValue& own = RankedTime(report, *tied[0]);
  const ReportValue& other = RankedTime(report, *tied[1]);
  const std::string names = absl::StrCat(NameInText(*tied[0]), " and ", NameInText(*tied[1]));
  const int runs = RunsToTell(own, other);
  if (runs == 0) return absl::StrCat(names, " may well be equally fast: 100 runs of each would not decide.");
  return absl::StrFormat(
      "What would decide: if %s differ by the factor of %.3g that their means have, about %d runs of each "
      "(tethys compare --repeats=%d).",
      names, RatioOf(other, own).value, runs, runs);
}

// The interval of the other tied variants' times, divided by the time of the first.
std::string TiedTimes(const proto::Report& report, const Ranking& tied) {
  const Runs runs = RunsOf(report, tied);
  if (runs.fewest < kFewRuns) return "Two runs are too few for an interval.";
  const ReportValue& own = RankedTime(report, *tied[0]);
  Interval all = {.low = 1, .high = 1};
  for (size_t i = 1; i < tied.size(); ++i) {
    const Contrast ratio = RatioOf(RankedTime(report, *tied[i]), own);
    if (!ratio.interval.has_value()) continue;
    all = {std::min(all.low, ratio.interval->low), std::max(all.high, ratio.interval->high)};
  }
  const std::string others = tied.size() == 2 ? absl::StrCat(NameInText(*tied[1]), " takes ")
                                              : absl::StrCat("The other ", tied.size() - 1, " take ");
  return absl::StrCat(others, TimesInterval({.value = 1, .interval = all}), " as long as ",
                      NameInText(*tied[0]), Evidence(runs));
}

// The variant with the least value; null if several have it.
template <typename Value>
const ReportVariant* Least(const Ranking& variants, const Value& value) {
  const ReportVariant* least = nullptr;
  for (const ReportVariant* variant : variants) {
    if (least == nullptr || value(*variant) < value(*least)) least = variant;
  }
  const auto equal = [&](const ReportVariant* variant) { return value(*variant) == value(*least); };
  return std::count_if(variants.begin(), variants.end(), equal) == 1 ? least : nullptr;
}

// The advantage of one of the named variants of a tie: fewer processes, or a smaller spread of accuracy.
std::string TellApart(Ranking tied) {
  tied.resize(std::min(tied.size(), kNamed));
  std::vector<std::string> names;
  for (const ReportVariant* variant : tied) names.push_back(NameInText(*variant));
  const bool two = tied.size() == 2;
  const std::string few = two ? " has fewer processes" : " has the fewest processes";
  const std::string small = two ? "a smaller spread of accuracy" : "the smallest spread of accuracy";
  const ReportVariant* fewest = Least(tied, [](const ReportVariant& v) { return v.workers() + v.servers(); });
  const ReportVariant* steady = nullptr;
  if (const Accuracy accuracy = AccuracyOf(tied); accuracy != nullptr) {
    const auto half = [accuracy](const ReportVariant& v) { return HalfWidth((v.*accuracy)()); };
    steady = Least(tied, half);
    double widest = 0;
    for (const ReportVariant* variant : tied) widest = std::max(widest, half(*variant));
    const bool few_runs =
        std::any_of(tied.begin(), tied.end(), [](const auto* v) { return v->seconds().count() < kFewRuns; });
    if (few_runs || (steady != nullptr && (widest < kVisibleSpread || widest < 2 * half(*steady)))) {
      steady = nullptr;
    }
  }
  std::vector<std::string> parts;
  if (fewest != nullptr) parts.push_back(absl::StrCat(NameInText(*fewest), few));
  if (steady != nullptr) {
    parts.push_back(steady == fewest ? small : absl::StrCat(NameInText(*steady), " has ", small));
  }
  if (parts.empty()) return "";
  return absl::StrCat(two ? " " : absl::StrCat(" Of ", NamesText(names), ", "), absl::StrJoin(parts, " and "),
                      ".");
}

}  // namespace

Headline TieHeadline(const proto::Report& report, const Answer& answer) {
  const bool given = report.target().given();
  const Ranking variants = Repeated(report);
  const Ranking& tied = answer.tied;
  const Accuracy accuracy = AccuracyOf(variants);
  std::string text =
      absl::StrCat("No winner ", tied.size() == 2 ? "between " : "among ", NamesOf(tied, "and"), ": ",
                   RunsText(RunsOf(report, tied)), " do not show which ",
                   given ? absl::StrCat("reaches ", TargetText(report.target()), " sooner") : "is faster",
                   given ? "" : TiedAccuracy(tied, accuracy));
  const ReportVariant& fastest = *variants[0];
  if (!given && IsShownLess(fastest.seconds(), answer.choice->seconds())) {
    absl::StrAppend(&text, "; ",
                    FasterText(fastest, NameAfter(text, fastest), *answer.choice,
                               MostAccurateOf(variants, accuracy), accuracy));
  }
  if (const ReportVariant* slower = BestSlower(report, *answer.choice); slower != nullptr) {
    absl::StrAppendFormat(&text, "; %s takes %.2f times as long as %s", NameAfter(text, *slower),
                          RatioOf(RankedTime(report, *slower), RankedTime(report, *answer.choice)).value,
                          NameInText(*answer.choice));
  }
  const bool all_alone =
      std::all_of(tied.begin(), tied.end(), [](const auto* v) { return v->workers() == 1; });
  if (all_alone && !answer.several.empty()) {
    absl::StrAppend(&text, "; if several workers must take part, train with ", NamesOf(answer.several, "or"));
  }
  return {absl::StrCat(text, "."),
          absl::StrCat(TiedTimes(report, tied), " ", WhatWouldDecide(report, tied), TellApart(tied))};
}

}  // namespace tethys
