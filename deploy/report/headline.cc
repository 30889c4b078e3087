#include "deploy/report/headline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

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

// "95 % interval 1.62 to 1.78, 3 runs of each"
std::string EvidenceText(const Ratio& ratio, const ReportValue& a, const ReportValue& b) {
  const std::string runs = a.count() == b.count() ? absl::StrCat(a.count(), " runs of each")
                                                  : absl::StrCat(a.count(), " and ", b.count(), " runs");
  return absl::StrFormat("95 %% interval %.2f to %.2f, %s", std::max(0.0, ratio.value - ratio.half),
                         ratio.value + ratio.half, runs);
}

std::string AccuracyText(const ReportVariant& choice, const ReportVariant& rival, Accuracy accuracy) {
  if (accuracy == nullptr) return "; accuracy was not measured in several runs of each";
  const ReportValue& own = (choice.*accuracy)();
  const ReportValue& other = (rival.*accuracy)();
  if (DifferenceOf(own, other) != Difference::kShown) return ", at equal accuracy within noise";
  const double points = 100 * (own.mean() - other.mean());
  return absl::StrFormat(", and is %s accurate by %.2f percentage points", points > 0 ? "more" : "less",
                         std::abs(points));
}

// The measured part of a worker's time that explains most of the difference between the two training times,
// if one does.
std::string ReasonText(const ReportVariant& choice, const ReportVariant& rival) {
  constexpr double kMain = 0.5;  // Least share of the difference that counts as the main reason.
  if (choice.step_seconds().count() == 0 || rival.step_seconds().count() == 0) return "";
  struct Part {
    double seconds;
    const char* before;
    const char* after;
  };
  const std::array<Part, 3> parts = {{
      {rival.exchange_seconds().mean() - choice.exchange_seconds().mean(), "wait ",
       " s less for the exchange of gradients and parameters"},
      {rival.compute_seconds().mean() - choice.compute_seconds().mean(), "compute for ", " s less"},
      {rival.data_seconds().mean() - choice.data_seconds().mean(), "wait ", " s less for data"},
  }};
  const Part& largest = *std::max_element(parts.begin(), parts.end(),
                                          [](const Part& a, const Part& b) { return a.seconds < b.seconds; });
  if (largest.seconds < kMain * (rival.seconds().mean() - choice.seconds().mean())) return "";
  return absl::StrFormat(", mainly because its workers %s%.2g%s", largest.before, largest.seconds,
                         largest.after);
}

// Names the first of `eligible` and, if it has one worker, the first with several; `all` are in the order of
// BySpeed.
std::string ChoiceText(const Ranking& eligible, const Ranking& all) {
  const std::string name = IntroducedName(*eligible[0]);
  if (eligible[0]->workers() != 1) return name;
  Ranking distributed;
  const auto several = [](const ReportVariant* variant) { return variant->workers() > 1; };
  std::copy_if(eligible.begin(), eligible.end(), std::back_inserter(distributed), several);
  if (distributed.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(distributed), several);
    distributed = NotSurpassed(distributed, AccuracyOf(distributed));
  }
  if (distributed.empty()) return name;
  return absl::StrCat(name, ", or with ", IntroducedName(*distributed[0]),
                      " if several workers must take part");
}

// Introduces a variant that `before` has not introduced.
std::string NameAfter(const std::string& before, const ReportVariant& variant) {
  const std::string introduced = IntroducedName(variant);
  return absl::StrContains(before, introduced) ? NameInText(variant) : introduced;
}

std::string Undecided(const Ranking& variants) {
  const ReportVariant& first = *variants[0];
  const ReportVariant& rival = *RivalOf(variants, first);
  return absl::StrCat(
      "Not decided, because single runs cannot tell a difference from chance: ", IntroducedName(first),
      " trained in ", SecondsText(first.seconds()), ", ", IntroducedName(rival), " in ",
      SecondsText(rival.seconds()), "; repeat with --repeats=3 or more.");
}

// Names both variants of an answer, neither of which is shown to be better. `claim`: "to be faster".
std::string NeitherText(const Answer& answer, const std::string& claim, const Ratio& ratio,
                        const std::string& evidence, const std::string& accuracy) {
  return absl::StrFormat(
      "Train with %s or %s: neither is shown %s (%s takes %.2f times as long, %s)%s; more runs (--repeats) "
      "may tell them "
      "apart.",
      IntroducedName(*answer.choice), IntroducedName(*answer.rival), claim, NameInText(*answer.rival),
      ratio.value, evidence, accuracy);
}

// The sentence for a target accuracy that the user gave.
std::string TargetHeadline(const proto::Report& report) {
  const std::string what = TargetText(report.target());
  const Answer answer = AnswerOf(report);
  if (answer.choice == nullptr)
    return absl::StrCat("Not decided: no variant reached ", what, " in all of its runs.");
  const ReportVariant& choice = *answer.choice;
  const ReportValue& seconds = choice.to_target().seconds();
  const std::string named = ChoiceText(Eligible(report), Repeated(report));
  if (answer.rival == nullptr) {
    return absl::StrCat("Train with ", named, ": only ", NameInText(choice), " reached ", what,
                        " in all of its runs, in ", SecondsText(seconds), ".");
  }
  const ReportValue& others = answer.rival->to_target().seconds();
  const Ratio ratio = RatioOf(others, seconds);
  const std::string evidence = EvidenceText(ratio, seconds, others);
  if (DifferenceOf(seconds, others) != Difference::kShown) {
    return NeitherText(answer, absl::StrCat("to reach ", what, " sooner"), ratio, evidence, "");
  }
  return absl::StrFormat("Train with %s: %s reaches %s in %s, %.2f times (%s) as soon as %s.", named,
                         NameInText(choice), what, SecondsText(seconds), ratio.value, evidence,
                         NameAfter(named, *answer.rival));
}

}  // namespace

std::string Headline(const proto::Report& report) {
  const Ranking variants = Repeated(report);
  if (variants.size() < 2) return Undecided(BySpeed(report));
  if (report.target().given()) return TargetHeadline(report);
  const Answer answer = AnswerOf(report);
  const ReportVariant& choice = *answer.choice;
  const ReportVariant& rival = *answer.rival;
  const Accuracy accuracy = AccuracyOf(variants);
  const bool slower = choice.seconds().mean() > rival.seconds().mean();
  const Ratio ratio =
      slower ? RatioOf(choice.seconds(), rival.seconds()) : RatioOf(rival.seconds(), choice.seconds());
  std::string evidence = EvidenceText(ratio, choice.seconds(), rival.seconds());
  const bool shown = DifferenceOf(choice.seconds(), rival.seconds()) == Difference::kShown;
  if (!shown && answer.level) {
    return NeitherText(answer, "to be faster", ratio, evidence, AccuracyText(choice, rival, accuracy));
  }
  if (!shown) evidence += ", so perhaps not faster at all";
  const std::string named = ChoiceText(Eligible(report), variants);
  if (slower) {
    // The accuracy is known, because a faster variant that is not chosen is shown to be less accurate than
    // another.
    const ReportVariant& most = MostAccurateOf(variants, accuracy);
    return absl::StrFormat(
        "Train with %s: %s is %.2f times (%s) as fast, but %.2f percentage points less accurate than "
        "%s.",
        named, NameAfter(named, rival), ratio.value, evidence,
        100 * ((most.*accuracy)().mean() - (rival.*accuracy)().mean()), NameInText(most));
  }
  return absl::StrFormat("Train with %s: %s is %.2f times (%s) as fast as %s%s%s.", named, NameInText(choice),
                         ratio.value, evidence, NameAfter(named, rival),
                         AccuracyText(choice, rival, accuracy), shown ? ReasonText(choice, rival) : "");
}

}  // namespace tethys
