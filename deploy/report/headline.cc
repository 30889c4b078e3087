#include "deploy/report/headline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/report/report_value.h"
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
  if (accuracy == nullptr) return "; accuracy was not measured in several runs of all";
  const ReportValue& own = (choice.*accuracy)();
  const ReportValue& other = (rival.*accuracy)();
  if (DifferenceOf(own, other) != Difference::kShown) return ", at equal accuracy within noise";
  const double points = 100 * (own.mean() - other.mean());
  return absl::StrFormat(", and is %s accurate by %.2f points", points > 0 ? "more" : "less",
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

// Names the choice and, if it has one worker, the choice among variants with several.
std::string ChoiceText(const Ranking& variants, const ReportVariant& choice) {
  const std::string name = IntroducedName(choice);
  if (choice.workers() != 1) return name;
  Ranking distributed;
  std::copy_if(variants.begin(), variants.end(), std::back_inserter(distributed),
               [](const ReportVariant* variant) { return variant->workers() > 1; });
  if (distributed.empty()) return name;
  const ReportVariant& other = *NotSurpassed(distributed, AccuracyOf(variants))[0];
  return absl::StrCat(name, ", or with ", IntroducedName(other), " if several workers must take part");
}

std::string Undecided(const Ranking& variants) {
  const ReportVariant& first = *variants[0];
  const ReportVariant& rival = *RivalOf(variants, first);
  return absl::StrCat("Not decided, because a single run shows no uncertainty: ", IntroducedName(first),
                      " trained in ", SecondsText(first.seconds()), ", ", IntroducedName(rival), " in ",
                      SecondsText(rival.seconds()), "; repeat with --repeats=3 or more.");
}

}  // namespace

std::string Headline(const Ranking& variants) {
  const ReportVariant* choice = ChoiceOf(variants);
  if (choice == nullptr) return Undecided(variants);
  const ReportVariant& rival = *RivalOf(variants, *choice);
  const Accuracy accuracy = AccuracyOf(variants);
  const bool slower = choice->seconds().mean() > rival.seconds().mean();
  const Ratio ratio =
      slower ? RatioOf(choice->seconds(), rival.seconds()) : RatioOf(rival.seconds(), choice->seconds());
  const std::string evidence = EvidenceText(ratio, choice->seconds(), rival.seconds());
  const std::string named = ChoiceText(variants, *choice);
  const bool introduced = absl::StrContains(named, IntroducedName(rival));
  const std::string rival_name = introduced ? NameInText(rival) : IntroducedName(rival);
  if (DifferenceOf(choice->seconds(), rival.seconds()) != Difference::kShown) {
    return absl::StrFormat(
        "Train with %s: %s takes as long as %s within noise (%.2f times, %s)%s; more runs (--repeats) may "
        "tell them apart.",
        named, NameInText(*choice), rival_name, ratio.value, evidence,
        AccuracyText(*choice, rival, accuracy));
  }
  if (slower) {
    // The accuracy is known, because a faster variant is not chosen is shown to be less accurate than
    // another.
    const ReportVariant& most = MostAccurateOf(variants, accuracy);
    return absl::StrFormat(
        "Train with %s: %s is %.2f times as fast (%s), but %.2f points less accurate than %s.", named,
        rival_name, ratio.value, evidence, 100 * ((most.*accuracy)().mean() - (rival.*accuracy)().mean()),
        NameInText(most));
  }
  return absl::StrFormat("Train with %s: %s is %.2f times as fast as %s (%s)%s%s.", named,
                         NameInText(*choice), ratio.value, rival_name, evidence,
                         AccuracyText(*choice, rival, accuracy), ReasonText(*choice, rival));
}

}  // namespace tethys
