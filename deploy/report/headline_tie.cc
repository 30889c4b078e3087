// The headline of a comparison in which no variant is shown to be better than all others.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/headline_words.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportVariant;

// Text on the first shown difference in accuracy between two of the tied variants. If no difference is shown,
// the text states the largest difference that the noise between runs could hide.
std::string TiedAccuracy(const Findings& findings) {
  const TieFindings& tie = findings.tie;
  const Accuracy accuracy = findings.accuracy;
  if (accuracy == nullptr) return AccuracyText(*findings.tied[0], *findings.tied[1], accuracy, "");
  const auto [more, less] = tie.accuracy;
  if (more == nullptr) return NoDifferenceText(tie.hidden_accuracy, tie.accuracy_runs);
  return absl::StrCat(AccuracyText(*more, *less, accuracy, absl::StrCat(", but ", NameInText(*more), " is")),
                      " than ", NameInText(*less));
}

// A sentence with the number of runs that would show a difference between the choice and TieFindings::second,
// if the quotient of their true times equals the quotient of their measured times.
std::string WhatWouldDecide(const proto::Report& report, const Findings& findings) {
  const ReportVariant& first = *findings.tied[0];
  const ReportVariant& second = *findings.tie.second;
  const std::string names = absl::StrCat(NameInText(first), " and ", NameInText(second));
  const int runs = findings.tie.runs_to_tell;
  if (runs == 0)
    return absl::StrCat(names,
                        " may well be equally fast: even 100 runs of each would not show a difference.");
  return absl::StrFormat(
      "What would decide: if the times of %s differ by a factor of %.3g, as their means do, about %d runs of "
      "each (tethys compare --repeats=%d).",
      names, RatioOf(RankedTime(report, second), RankedTime(report, first)).value, runs, runs);
}

// Compares the times of the other tied variants with the time of the first one, by an interval of their
// quotients.
std::string TiedTimes(const Findings& findings) {
  const Ranking& tied = findings.tied;
  if (findings.runs.fewest < kFewRuns) return "Two runs are too few for a confidence interval.";
  const std::string others = tied.size() == 2 ? absl::StrCat(NameInText(*tied[1]), " takes ")
                                              : absl::StrCat("The other ", tied.size() - 1, " take ");
  return absl::StrCat(others, TimesInterval({.value = 1, .interval = findings.tie.times}), " as long as ",
                      NameInText(*tied[0]), Evidence(findings.runs));
}

// The letters of the first kNamed tied variants, and the number of others: "A and B".
std::string LettersOf(const Ranking& tied) {
  std::vector<std::string> letters;
  for (size_t i = 0; i < std::min(tied.size(), kNamed); ++i) letters.push_back(NameInText(*tied[i]));
  if (tied.size() > kNamed) {
    letters.push_back(PluralText(static_cast<int64_t>(tied.size() - kNamed), "other"));
  }
  return NamesText(letters);
}

// The advantage of one of the named variants of a tie: fewer processes, or a smaller spread of accuracy.
std::string TellApart(const Findings& findings) {
  const auto* fewest = findings.tie.fewest_processes;
  const auto* steadiest = findings.tie.steadiest;
  std::vector<std::string> names;
  for (const ReportVariant* variant : findings.tied) names.push_back(NameInText(*variant));
  names.resize(std::min(names.size(), kNamed));
  const bool two = names.size() == 2;
  const std::string few = two ? " has fewer processes" : " has the fewest processes";
  const std::string small = two ? "a smaller spread of accuracy" : "the smallest spread of accuracy";
  std::vector<std::string> parts;
  if (fewest != nullptr) parts.push_back(absl::StrCat(NameInText(*fewest), few));
  if (steadiest != nullptr) {
    parts.push_back(steadiest == fewest ? small : absl::StrCat(NameInText(*steadiest), " has ", small));
  }
  if (parts.empty()) return "";
  return absl::StrCat(two ? " " : absl::StrCat(" Of ", NamesText(names), ", "), absl::StrJoin(parts, " and "),
                      ".");
}

// The beginning of the headline, which recommends all variants of the best strategy before the tie between
// them is stated: "Train with A or B: C takes 2.00 times as long as A; ". Empty without
// TieFindings::other_strategy.
std::string StrategyText(const proto::Report& report, const Findings& findings) {
  if (findings.tie.other_strategy == nullptr) return "";
  const ReportVariant& other = *findings.tie.other_strategy;
  std::string text = absl::StrCat("Train with ", NamesOf(findings.tied, "or"), ": ");
  absl::StrAppend(&text, NameAfter(text, other));
  if (findings.tie.other_slower) {
    return absl::StrFormat("%s takes %.2f times as long as %s; ", text,
                           RatioOf(RankedTime(report, other), RankedTime(report, *findings.choice)).value,
                           NameInText(*findings.choice));
  }
  const Accuracy accuracy = findings.accuracy;
  const ReportVariant& most = *findings.most_accurate;
  return absl::StrCat(text, " is ", PointsText(PointsOf((other.*accuracy)(), (most.*accuracy)())), " than ",
                      NameAfter(text, most), "; ");
}

// The confidence interval of the difference in time or accuracy that StrategyText states.
std::string StrategySureness(const proto::Report& report, const Findings& findings) {
  if (findings.tie.other_strategy == nullptr || findings.runs.fewest < kFewRuns) return "";
  const ReportVariant& other = *findings.tie.other_strategy;
  if (findings.tie.other_slower) {
    return absl::StrCat(
        NameInText(other), " takes ",
        TimesInterval(RatioOf(RankedTime(report, other), RankedTime(report, *findings.choice))),
        " as long as ", NameInText(*findings.choice), ". ");
  }
  const ReportVariant& most = *findings.most_accurate;
  const Contrast points = PointsOf((most.*findings.accuracy)(), (other.*findings.accuracy)());
  return absl::StrCat(NameInText(other), " is ", PointsInterval(*points.interval), " less accurate than ",
                      NameInText(most), ". ");
}

}  // namespace

Headline TieHeadline(const proto::Report& report, const Findings& findings) {
  const bool given = report.target().given();
  const Ranking& tied = findings.tied;
  const ReportVariant& choice = *findings.choice;
  std::string text = StrategyText(report, findings);
  const bool first = text.empty();
  absl::StrAppend(&text, first ? "No" : "no", " winner ", tied.size() == 2 ? "between " : "among ",
                  first ? NamesOf(tied, "and") : LettersOf(tied), ": ", RunsText(findings.runs),
                  " do not show which ",
                  given ? absl::StrCat("reaches ", TargetText(report.target()), " sooner") : "is faster",
                  given ? "" : TiedAccuracy(findings));
  if (const ReportVariant* faster = findings.faster; faster != nullptr) {
    absl::StrAppend(
        &text, "; ",
        FasterText(*faster, NameAfter(text, *faster), choice, *findings.most_accurate, findings.accuracy));
  }
  const ReportVariant* slower = findings.slower;
  if (slower != nullptr && slower != findings.tie.other_strategy) {
    absl::StrAppendFormat(&text, "; %s takes %.2f times as long as %s", NameAfter(text, *slower),
                          RatioOf(RankedTime(report, *slower), RankedTime(report, choice)).value,
                          NameInText(choice));
  }
  const bool all_alone =
      std::all_of(tied.begin(), tied.end(), [](const auto* v) { return v->workers() == 1; });
  if (all_alone && !findings.several.empty()) {
    absl::StrAppend(&text, "; if several workers must take part, train with ",
                    NamesOf(findings.several, "or"));
  }
  return {absl::StrCat(text, "."), absl::StrCat(StrategySureness(report, findings), TiedTimes(findings), " ",
                                                WhatWouldDecide(report, findings), TellApart(findings))};
}

}  // namespace tethys
