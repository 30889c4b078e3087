#include "deploy/report/headline.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/cpu_use.h"
#include "deploy/report/headline_words.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

// Names the choice and, if it has one worker, the best variants with several workers.
std::string ChoiceText(const Answer& answer) {
  const std::string name = IntroducedName(*answer.choice);
  if (answer.several.empty()) return name;
  return absl::StrCat(name, ", or with ", NamesOf(answer.several, "or"),
                      " if several workers must take part");
}

Headline Undecided(const Ranking& variants) {
  const ReportVariant& first = *variants[0];
  const ReportVariant& rival = *RivalOf(variants, first);
  return {absl::StrCat("No winner yet: ", IntroducedName(first), " trained in ", SecondsText(first.seconds()),
                       ", ", IntroducedName(rival), " in ", SecondsText(rival.seconds()),
                       ", and a single run cannot tell a difference from chance."),
          "Not known from single runs. What would decide: three runs of each or more (tethys compare "
          "--repeats=3)."};
}

// The headline for a target accuracy that the user gave.
Headline TargetHeadline(const proto::Report& report, const Answer& answer) {
  const std::string what = TargetText(report.target());
  const ReportVariant& choice = *answer.choice;
  const ReportValue& seconds = choice.to_target().seconds();
  const std::string named = ChoiceText(answer);
  if (answer.rival == nullptr) {
    return {absl::StrCat("Train with ", named, ": only ", NameInText(choice), " reached ", what,
                         " in all of its runs, in ", SecondsText(seconds), "."),
            ""};
  }
  const ReportValue& others = answer.rival->to_target().seconds();
  const Contrast ratio = RatioOf(others, seconds);
  return {absl::StrFormat("Train with %s: %s reaches %s in %s, and %s takes %.2f times as long.", named,
                          NameInText(choice), what, SecondsText(seconds), NameAfter(named, *answer.rival),
                          ratio.value),
          absl::StrCat(NameInText(*answer.rival), " takes ", TimesInterval(ratio), " as long",
                       Evidence(RunsOf(seconds, others)))};
}

// The headline if the choice is shown to be slower than its rival, but `most` is more accurate than the
// rival.
Headline SlowerChoice(const Answer& answer, const ReportVariant& most, Accuracy accuracy) {
  const ReportVariant& rival = *answer.rival;
  const Contrast ratio = RatioOf(answer.choice->seconds(), rival.seconds());
  return {absl::StrCat(
              "Train with ", IntroducedName(*answer.choice), " for accuracy, or with ", IntroducedName(rival),
              " for speed: ", FasterText(rival, NameInText(rival), *answer.choice, most, accuracy), "."),
          absl::StrCat(NameInText(rival), " trains ", TimesInterval(ratio), " as fast as ",
                       NameInText(*answer.choice), ", and is ",
                       PointsInterval(*PointsOf((most.*accuracy)(), (rival.*accuracy)()).interval),
                       " less accurate than ", NameInText(most),
                       Evidence(RunsOf(answer.choice->seconds(), rival.seconds())))};
}

// The headline if the choice is not shown to be faster than its rival, and the rival is shown to be less
// accurate than `most`.
Headline AccurateChoice(const Answer& answer, const ReportVariant& most, Accuracy accuracy) {
  const ReportVariant& choice = *answer.choice;
  const ReportVariant& rival = *answer.rival;
  const ReportVariant& better = IsShownLess((rival.*accuracy)(), (choice.*accuracy)()) ? choice : most;
  const std::string named = ChoiceText(answer);
  const Contrast points = PointsOf((better.*accuracy)(), (rival.*accuracy)());
  const Contrast ratio = RatioOf(rival.seconds(), choice.seconds());
  const Runs runs = RunsOf(choice.seconds(), rival.seconds());
  const std::string times = runs.fewest < kFewRuns
                                ? ""
                                : absl::StrCat(", and ", NameInText(rival), " takes ", TimesInterval(ratio),
                                               " as long as ", NameInText(choice));
  return {absl::StrCat("Train with ", named, ": ", NameAfter(named, better), " is ", PointsText(points),
                       " than ", NameAfter(named, rival), ", and no difference in speed is shown",
                       &better == &choice ? "" : absl::StrCat(" between that and ", NameInText(choice)), "."),
          absl::StrCat(NameInText(better), " is ", PointsInterval(*points.interval), " more accurate than ",
                       NameInText(rival), times, Evidence(runs))};
}

// The headline without the remark on other programs.
Headline Measured(const proto::Report& report) {
  const Ranking variants = Repeated(report);
  if (variants.size() < 2) return Undecided(BySpeed(report));
  const Answer answer = AnswerOf(report);
  if (answer.choice == nullptr) {
    return {
        absl::StrCat("No winner: no variant reached ", TargetText(report.target()), " in all of its runs."),
        "What would decide: more epochs, or a lower --target_accuracy."};
  }
  if (answer.tied.size() > 1) return TieHeadline(report, answer);
  if (report.target().given()) return TargetHeadline(report, answer);
  const ReportVariant& choice = *answer.choice;
  const ReportVariant& rival = *answer.rival;
  // Null only if the choice is shown to be faster: a rival that is not shown to be slower, and not tied, is
  // shown to be less accurate than another variant.
  const Accuracy accuracy = AccuracyOf(variants);
  if (IsShownLess(rival.seconds(), choice.seconds())) {
    return SlowerChoice(answer, MostAccurateOf(variants, accuracy), accuracy);
  }
  if (!IsShown(choice.seconds(), rival.seconds())) {
    return AccurateChoice(answer, MostAccurateOf(variants, accuracy), accuracy);
  }
  const std::string named = ChoiceText(answer);
  const Contrast ratio = RatioOf(rival.seconds(), choice.seconds());
  return {absl::StrFormat("Train with %s: %s trains %.2f times as fast as %s%s.", named, NameInText(choice),
                          ratio.value, NameAfter(named, rival),
                          AccuracyText(choice, rival, accuracy, ", and is")),
          absl::StrCat(NameInText(choice), " trains ", TimesInterval(ratio), " as fast",
                       AccuracyInterval(choice, rival, accuracy),
                       Evidence(RunsOf(choice.seconds(), rival.seconds())))};
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
