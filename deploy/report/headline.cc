#include "deploy/report/headline.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

std::string RunsText(const ReportValue& a, const ReportValue& b) {
  return a.count() == b.count() ? absl::StrCat(", from ", a.count(), " runs of each")
                                : absl::StrCat(", from ", a.count(), " and ", b.count(), " runs");
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

// Ends a sentence on speed. `choice_is`: in front of a difference, such as ", and is".
std::string AccuracyText(const ReportVariant& choice, const ReportVariant& rival, Accuracy accuracy,
                         const std::string& choice_is) {
  if (accuracy == nullptr) return "; accuracy was not measured in several runs of each";
  const ReportValue& own = (choice.*accuracy)();
  const ReportValue& other = (rival.*accuracy)();
  if (!Shown(own, other)) return ", with no measurable difference in accuracy";
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
      "Not known from single runs: repeat with --repeats=3 or more."};
}

// Names both variants of an answer, neither of which is shown to be better. `claim`: "to be faster".
Headline Neither(const Answer& answer, const std::string& claim, const Ratio& ratio, const std::string& runs,
                 const std::string& accuracy) {
  return {absl::StrCat("Train with ", IntroducedName(*answer.choice), " or ", IntroducedName(*answer.rival),
                       ": neither is shown ", claim, accuracy, "."),
          absl::StrCat(NameInText(*answer.rival), " takes ", TimesInterval(ratio), " as long as ",
                       NameInText(*answer.choice), ", with 95 % confidence", runs,
                       "; more runs (--repeats) may tell them apart.")};
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
  const std::string runs = RunsText(seconds, others);
  if (!Shown(seconds, others)) {
    return Neither(answer, absl::StrCat("to reach ", what, " sooner"), ratio, runs, "");
  }
  return {absl::StrFormat("Train with %s: %s reaches %s in %s, and %s takes %.2f times as long.", named,
                          NameInText(choice), what, SecondsText(seconds), NameAfter(named, *answer.rival),
                          ratio.value),
          absl::StrCat(NameInText(*answer.rival), " takes ", TimesInterval(ratio),
                       " as long, with 95 % confidence", runs, ".")};
}

// The choice is slower than its rival, but more accurate.
Headline SlowerChoice(const Answer& answer, const ReportVariant& most, Accuracy accuracy,
                      const std::string& named) {
  const ReportVariant& rival = *answer.rival;
  const Ratio ratio = RatioOf(answer.choice->seconds(), rival.seconds());
  const double points = 100 * ((most.*accuracy)().mean() - (rival.*accuracy)().mean());
  const bool shown = Shown(answer.choice->seconds(), rival.seconds());
  return {absl::StrFormat(
              "Train with %s: %s trains %.2f times as fast, but is %.2f percentage points less accurate than "
              "%s.",
              named, NameAfter(named, rival), ratio.value, points, NameInText(most)),
          absl::StrCat(NameInText(rival), " trains ", TimesInterval(ratio), " as fast as ",
                       NameInText(*answer.choice), shown ? "," : ", so perhaps not faster at all,",
                       " and is ", PointsInterval((most.*accuracy)(), (rival.*accuracy)()),
                       " less accurate than ", NameInText(most), ", with 95 % confidence",
                       RunsText(answer.choice->seconds(), rival.seconds()), ".")};
}

}  // namespace

Headline HeadlineOf(const proto::Report& report) {
  const Ranking variants = Repeated(report);
  if (variants.size() < 2) return Undecided(BySpeed(report));
  if (report.target().given()) return TargetHeadline(report);
  const Answer answer = AnswerOf(report);
  const ReportVariant& choice = *answer.choice;
  const ReportVariant& rival = *answer.rival;
  const Accuracy accuracy = AccuracyOf(variants);
  const std::string runs = RunsText(choice.seconds(), rival.seconds());
  const bool shown = Shown(choice.seconds(), rival.seconds());
  const bool slower = choice.seconds().mean() > rival.seconds().mean();
  if (!shown && answer.level) {
    return Neither(answer, "to be faster", RatioOf(rival.seconds(), choice.seconds()), runs,
                   AccuracyText(choice, rival, accuracy, absl::StrCat(", but ", NameInText(choice), " is")));
  }
  const std::string named = ChoiceText(Eligible(report), variants);
  if (slower) {
    // The accuracy is known, because a faster variant that is not chosen is shown to be less accurate than
    // another.
    return SlowerChoice(answer, MostAccurateOf(variants, accuracy), accuracy, named);
  }
  const Ratio ratio = RatioOf(rival.seconds(), choice.seconds());
  return {absl::StrFormat("Train with %s: %s trains %.2f times as fast as %s%s.", named, NameInText(choice),
                          ratio.value, NameAfter(named, rival),
                          AccuracyText(choice, rival, accuracy, ", and is")),
          absl::StrCat(NameInText(choice), " trains ", TimesInterval(ratio), " as fast",
                       shown ? "" : ", so perhaps not faster at all,",
                       AccuracyInterval(choice, rival, accuracy), ", with 95 % confidence", runs, ".")};
}

}  // namespace tethys
