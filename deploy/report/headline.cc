#include "deploy/report/headline.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/report/cpu_use.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

constexpr size_t kLongList = 100;       // Names with more characters than that are left to the legend.
constexpr double kWideAccuracy = 0.01;  // From this half of an interval on, its width is stated.

// Ends a sentence of intervals: " (95 % confidence, 3 runs of each)."
std::string Evidence(int fewest_runs, int most_runs) {
  return absl::StrCat(" (95 % confidence, ", fewest_runs,
                      fewest_runs == most_runs ? "" : absl::StrCat(" to ", most_runs), " runs of each).");
}

std::string Evidence(const ReportValue& a, const ReportValue& b) {
  return Evidence(std::min(a.count(), b.count()), std::max(a.count(), b.count()));
}

// "between 1.62 and 1.78 times"
std::string TimesInterval(const Ratio& ratio) {
  return absl::StrFormat("between %.2f and %.2f times", std::max(0.0, ratio.value - ratio.half),
                         ratio.value + ratio.half);
}

// "between 0.75 and 1.25 percentage points"
std::string PointsInterval(const ReportValue& more, const ReportValue& less) {
  const double points = 100 * (more.mean() - less.mean());
  const double half = 100 * HalfOfDifference(more, less);
  return absl::StrFormat("between %.2f and %.2f percentage points", points - half, points + half);
}

bool Shown(const ReportValue& a, const ReportValue& b) { return DifferenceOf(a, b) == Difference::kShown; }

// Ends a sentence on variants whose accuracies are not shown to differ. `half`: of the difference's interval.
std::string NoDifferenceText(double half) {
  if (half < kWideAccuracy) return ", with no measurable difference in accuracy";
  return absl::StrFormat(", and differences in accuracy below %.2g points may not show", 100 * half);
}

// Ends a sentence on speed. `choice_is`: in front of a difference, such as ", and is".
std::string AccuracyText(const ReportVariant& choice, const ReportVariant& rival, Accuracy accuracy,
                         const std::string& choice_is) {
  if (accuracy == nullptr) return "; accuracy was not measured in several runs of each";
  const ReportValue& own = (choice.*accuracy)();
  const ReportValue& other = (rival.*accuracy)();
  if (!Shown(own, other)) return NoDifferenceText(HalfOfDifference(own, other));
  const double points = 100 * (own.mean() - other.mean());
  return absl::StrFormat("%s %.2f percentage points %s accurate", choice_is, std::abs(points),
                         points > 0 ? "more" : "less");
}

// The interval of a difference that AccuracyText states.
std::string AccuracyInterval(const ReportVariant& choice, const ReportVariant& rival, Accuracy accuracy) {
  if (accuracy == nullptr) return "";
  const ReportValue& own = (choice.*accuracy)();
  const ReportValue& other = (rival.*accuracy)();
  if (!Shown(own, other)) return "";
  return own.mean() > other.mean() ? absl::StrCat(" and ", PointsInterval(own, other), " more accurate")
                                   : absl::StrCat(" and ", PointsInterval(other, own), " less accurate");
}

// Names the first of `eligible` and, if it has one worker, the first with several; `all` are in the order of
// BySpeed.
std::string ChoiceText(const Ranking& eligible, const Ranking& all) {
  const std::string name = IntroducedName(*eligible[0]);
  if (eligible[0]->workers() != 1) return name;
  const ReportVariant* several = BestOfSeveralWorkers(eligible, all);
  if (several == nullptr) return name;
  return absl::StrCat(name, ", or with ", IntroducedName(*several), " if several workers must take part");
}

// Introduces a variant that `before` has not introduced.
std::string NameAfter(const std::string& before, const ReportVariant& variant) {
  const std::string introduced = IntroducedName(variant);
  return absl::StrContains(before, introduced) ? NameInText(variant) : introduced;
}

Headline Undecided(const Ranking& variants) {
  const ReportVariant& first = *variants[0];
  const ReportVariant& rival = *RivalOf(variants, first);
  return {
      absl::StrCat("Not decided yet: ", IntroducedName(first), " trained in ", SecondsText(first.seconds()),
                   ", ", IntroducedName(rival), " in ", SecondsText(rival.seconds()),
                   ", and a single run cannot tell a difference from chance."),
      "Not known from single runs: repeat with tethys compare --repeats=3 or more."};
}

// "A (mirrored) or B (ps_sync)", "A, B, C or 2 others". Long names are left to the legend if there are more
// than two.
std::string TiedNames(const Ranking& tied) {
  std::vector<std::string> letters, introduced;
  for (size_t i = 0; i < std::min(tied.size(), kNamed); ++i) {
    letters.push_back(NameInText(*tied[i]));
    introduced.push_back(IntroducedName(*tied[i]));
  }
  if (tied.size() > kNamed) {
    for (auto* names : {&letters, &introduced}) names->push_back(PluralText(tied.size() - kNamed, "other"));
  }
  std::string names = NamesText(introduced, "or");
  return tied.size() > 2 && names.size() > kLongList ? NamesText(letters, "or") : names;
}

// The first shown difference in accuracy between two of `tied`, or the largest that these runs may hide.
std::string TiedAccuracy(const Ranking& tied, Accuracy accuracy) {
  if (accuracy == nullptr) return AccuracyText(*tied[0], *tied[1], accuracy, "");
  double half = 0;
  for (const ReportVariant* a : tied) {
    for (const ReportVariant* b : tied) {
      if (a == b) continue;
      const ReportValue& more = (a->*accuracy)();
      const ReportValue& less = (b->*accuracy)();
      half = std::max(half, HalfOfDifference(more, less));
      if (more.mean() <= less.mean() || !Shown(more, less)) continue;
      return absl::StrCat(AccuracyText(*a, *b, accuracy, absl::StrCat(", but ", NameInText(*a), " is")),
                          " than ", NameInText(*b));
    }
  }
  return NoDifferenceText(half);
}

// The interval of the quotients of the other tied variants' times and that of the first.
std::string TiedTimes(const proto::Report& report, const Ranking& tied) {
  const ReportValue& own = RankedTime(report, *tied[0]);
  double low = 1;
  double high = 1;
  int fewest = own.count();
  int most = own.count();
  for (size_t i = 1; i < tied.size(); ++i) {
    const ReportValue& time = RankedTime(report, *tied[i]);
    const Ratio ratio = RatioOf(time, own);
    low = std::min(low, ratio.value - ratio.half);
    high = std::max(high, ratio.value + ratio.half);
    fewest = std::min(fewest, time.count());
    most = std::max(most, time.count());
  }
  const std::string others = tied.size() == 2 ? absl::StrCat(NameInText(*tied[1]), " takes ")
                                              : absl::StrCat("The other ", tied.size() - 1, " take ");
  return absl::StrCat(others, TimesInterval({.value = (low + high) / 2, .half = (high - low) / 2}),
                      " as long as ", NameInText(*tied[0]), Evidence(fewest, most));
}

// A faster variant that is not chosen because it is less accurate than `most`. Its accuracy is known then.
std::string FasterText(const ReportVariant& faster, const std::string& its_name, const ReportVariant& choice,
                       const ReportVariant& most, Accuracy accuracy) {
  return absl::StrFormat("%s trains %.2f times as fast, but is %.2f percentage points less accurate than %s",
                         its_name, RatioOf(choice.seconds(), faster.seconds()).value,
                         100 * ((most.*accuracy)().mean() - (faster.*accuracy)().mean()), NameInText(most));
}

// The headline for several variants none of which is shown to be better than another.
Headline Tie(const proto::Report& report, const Answer& answer) {
  const bool given = report.target().given();
  const Ranking variants = Repeated(report);
  const Ranking& tied = answer.tied;
  const Accuracy accuracy = AccuracyOf(variants);
  const std::string names = TiedNames(tied);
  std::string text =
      absl::StrCat("Train with ", names, ": ", tied.size() == 2 ? "neither" : "none", " is shown to ",
                   given ? absl::StrCat("reach ", TargetText(report.target()), " sooner") : "be faster",
                   given ? "" : TiedAccuracy(tied, accuracy));
  const ReportVariant& fastest = *variants[0];
  if (!given && fastest.seconds().mean() < answer.choice->seconds().mean() &&
      Shown(fastest.seconds(), answer.choice->seconds())) {
    absl::StrAppend(&text, "; ",
                    FasterText(fastest, NameAfter(names, fastest), *answer.choice,
                               MostAccurateOf(variants, accuracy), accuracy));
  }
  const bool all_alone =
      std::all_of(tied.begin(), tied.end(), [](const auto* v) { return v->workers() == 1; });
  if (all_alone && answer.rival->workers() > 1) {
    absl::StrAppend(&text, "; if several workers must take part, with ", NameAfter(text, *answer.rival));
  }
  return {absl::StrCat(text, "."), TiedTimes(report, tied)};
}

// The headline for a target accuracy that the user gave.
Headline TargetHeadline(const proto::Report& report) {
  const std::string what = TargetText(report.target());
  const Answer answer = AnswerOf(report);
  if (answer.choice == nullptr) {
    return {absl::StrCat("Not decided: no variant reached ", what, " in all of its runs."), ""};
  }
  const ReportVariant& choice = *answer.choice;
  const ReportValue& seconds = choice.to_target().seconds();
  const std::string named = ChoiceText(Eligible(report), Repeated(report));
  if (answer.rival == nullptr) {
    return {absl::StrCat("Train with ", named, ": only ", NameInText(choice), " reached ", what,
                         " in all of its runs, in ", SecondsText(seconds), "."),
            ""};
  }
  const ReportValue& others = answer.rival->to_target().seconds();
  const Ratio ratio = RatioOf(others, seconds);
  return {absl::StrFormat("Train with %s: %s reaches %s in %s, and %s takes %.2f times as long.", named,
                          NameInText(choice), what, SecondsText(seconds), NameAfter(named, *answer.rival),
                          ratio.value),
          absl::StrCat(NameInText(*answer.rival), " takes ", TimesInterval(ratio), " as long",
                       Evidence(seconds, others))};
}

// The choice is slower than its rival, but more accurate.
Headline SlowerChoice(const Answer& answer, const ReportVariant& most, Accuracy accuracy) {
  const ReportVariant& rival = *answer.rival;
  const Ratio ratio = RatioOf(answer.choice->seconds(), rival.seconds());
  const bool shown = Shown(answer.choice->seconds(), rival.seconds());
  return {
      absl::StrCat("Train with ", IntroducedName(*answer.choice), " for accuracy, or with ",
                   IntroducedName(rival),
                   " for speed: ", FasterText(rival, NameInText(rival), *answer.choice, most, accuracy), "."),
      absl::StrCat(NameInText(rival), " trains ", TimesInterval(ratio), " as fast as ",
                   NameInText(*answer.choice), shown ? "," : ", so perhaps not faster at all,", " and is ",
                   PointsInterval((most.*accuracy)(), (rival.*accuracy)()), " less accurate than ",
                   NameInText(most), Evidence(answer.choice->seconds(), rival.seconds()))};
}

// The headline, without the CPU time of other programs.
Headline Measured(const proto::Report& report) {
  const Ranking variants = Repeated(report);
  if (variants.size() < 2) return Undecided(BySpeed(report));
  const Answer answer = AnswerOf(report);
  if (answer.tied.size() > 1) return Tie(report, answer);
  if (report.target().given()) return TargetHeadline(report);
  const ReportVariant& choice = *answer.choice;
  const ReportVariant& rival = *answer.rival;
  const Accuracy accuracy = AccuracyOf(variants);
  const bool shown = Shown(choice.seconds(), rival.seconds());
  const bool slower = choice.seconds().mean() > rival.seconds().mean();
  if (slower) {
    // The accuracy is known, because a faster variant that is not chosen is shown to be less accurate than
    // another.
    return SlowerChoice(answer, MostAccurateOf(variants, accuracy), accuracy);
  }
  const std::string named = ChoiceText(Eligible(report), variants);
  const Ratio ratio = RatioOf(rival.seconds(), choice.seconds());
  return {
      absl::StrFormat("Train with %s: %s trains %.2f times as fast as %s%s.", named, NameInText(choice),
                      ratio.value, NameAfter(named, rival),
                      AccuracyText(choice, rival, accuracy, ", and is")),
      absl::StrCat(NameInText(choice), " trains ", TimesInterval(ratio), " as fast",
                   shown ? "" : ", so perhaps not faster at all,", AccuracyInterval(choice, rival, accuracy),
                   Evidence(choice.seconds(), rival.seconds()))};
}

}  // namespace

Headline HeadlineOf(const proto::Report& report) {
  Headline headline = Measured(report);
  if (const double most = MostOthersCpu(report); most > kLoudOthersCpu) {
    absl::StrAppend(&headline.how_sure, headline.how_sure.empty() ? "" : " ",
                    absl::StrFormat("Other programs took up to %.0f %% of the CPU.", 100 * most));
  }
  return headline;
}

}  // namespace tethys
