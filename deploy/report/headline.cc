#include "deploy/report/headline.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/report/headline_words.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"

namespace tethys {
namespace {

using proto::ReportVariant;

// Names the choice and, if it has one worker, the best variants with several workers.
std::string ChoiceText(const Findings& findings) {
  const std::string name = IntroducedName(*findings.choice);
  if (findings.several.empty()) return name;
  return absl::StrCat(name, ", or with ", NamesOf(findings.several, "or"),
                      " if several workers must take part");
}

Headline SingleRuns(const Contenders& fastest) {
  const ReportVariant& first = *fastest.best;
  const ReportVariant& rival = *fastest.rival;
  return {absl::StrCat("No winner yet: ", IntroducedName(first), " trained in ", SecondsText(first.seconds()),
                       ", ", IntroducedName(rival), " in ", SecondsText(rival.seconds()),
                       ", and a single run cannot tell a difference from chance."),
          "Single runs do not show which variant is faster. What would decide: three or more runs of each "
          "(tethys compare --repeats=3)."};
}

Headline NotReached(const proto::Report& report) {
  return {absl::StrCat("No winner: no variant reached ", TargetText(report.target()), " in all of its runs."),
          "What would decide: more epochs, or a lower --target_accuracy."};
}

Headline OnlyReached(const proto::Report& report, const Findings& findings) {
  const ReportVariant& choice = *findings.choice;
  return {absl::StrCat("Train with ", ChoiceText(findings), ": only ", NameInText(choice), " reached ",
                       TargetText(report.target()), " in all of its runs, in ",
                       SecondsText(choice.to_target().seconds()), "."),
          ""};
}

Headline Sooner(const proto::Report& report, const Findings& findings) {
  const ReportVariant& choice = *findings.choice;
  const ReportVariant& rival = *findings.rival;
  const std::string named = ChoiceText(findings);
  return {absl::StrFormat("Train with %s: %s reaches %s in %s, and %s takes %.2f times as long.", named,
                          NameInText(choice), TargetText(report.target()),
                          SecondsText(choice.to_target().seconds()), NameAfter(named, rival),
                          findings.ratio.value),
          absl::StrCat(NameInText(rival), " takes ", TimesInterval(findings.ratio), " as long",
                       Evidence(findings.runs))};
}

Headline Faster(const Findings& findings) {
  const ReportVariant& choice = *findings.choice;
  const ReportVariant& rival = *findings.rival;
  const std::string named = ChoiceText(findings);
  return {absl::StrFormat("Train with %s: %s trains %.2f times as fast as %s%s.", named, NameInText(choice),
                          findings.ratio.value, NameAfter(named, rival),
                          AccuracyText(choice, rival, findings.accuracy, ", and is")),
          absl::StrCat(NameInText(choice), " trains ", TimesInterval(findings.ratio), " as fast",
                       AccuracyInterval(choice, rival, findings.accuracy), Evidence(findings.runs))};
}

Headline MoreAccurate(const Findings& findings) {
  const ReportVariant& choice = *findings.choice;
  const ReportVariant& rival = *findings.rival;
  const ReportVariant& better = *findings.better;
  const std::string named = ChoiceText(findings);
  const Contrast points = PointsOf((better.*findings.accuracy)(), (rival.*findings.accuracy)());
  const std::string times =
      findings.runs.fewest < kFewRuns
          ? ""
          : absl::StrCat(", and ", NameInText(rival), " takes ", TimesInterval(findings.ratio),
                         " as long as ", NameInText(choice));
  return {absl::StrCat("Train with ", named, ": ", NameAfter(named, better), " is ", PointsText(points),
                       " than ", NameAfter(named, rival), ", and no difference in speed is shown",
                       &better == &choice ? "" : absl::StrCat(" between the latter and ", NameInText(choice)),
                       "."),
          absl::StrCat(NameInText(better), " is ", PointsInterval(*points.interval), " more accurate than ",
                       NameInText(rival), times, Evidence(findings.runs))};
}

Headline ForAccuracy(const Findings& findings) {
  const ReportVariant& choice = *findings.choice;
  const ReportVariant& rival = *findings.rival;
  const ReportVariant& most = *findings.most_accurate;
  const Contrast points = PointsOf((most.*findings.accuracy)(), (rival.*findings.accuracy)());
  return {absl::StrCat(
              "Train with ", IntroducedName(choice), " for accuracy, or with ", IntroducedName(rival),
              " for speed: ", FasterText(rival, NameInText(rival), choice, most, findings.accuracy), "."),
          absl::StrCat(NameInText(rival), " trains ", TimesInterval(findings.ratio), " as fast as ",
                       NameInText(choice), ", and is ", PointsInterval(*points.interval),
                       " less accurate than ", NameInText(most), Evidence(findings.runs))};
}

// The headline without the remark on other programs.
Headline WithoutOthersCpu(const proto::Report& report, const Findings& findings) {
  switch (findings.kind) {
    case AnswerKind::kNothingToCompare:
      break;
    case AnswerKind::kSingleRuns:
      return SingleRuns(findings.fastest);
    case AnswerKind::kNotReached:
      return NotReached(report);
    case AnswerKind::kTie:
      return TieHeadline(report, findings);
    case AnswerKind::kOnlyReached:
      return OnlyReached(report, findings);
    case AnswerKind::kSooner:
      return Sooner(report, findings);
    case AnswerKind::kFaster:
      return Faster(findings);
    case AnswerKind::kMoreAccurate:
      return MoreAccurate(findings);
    case AnswerKind::kForAccuracy:
      return ForAccuracy(findings);
  }
  return {};
}

}  // namespace

Headline HeadlineOf(const proto::Report& report, const Findings& findings) {
  Headline headline = WithoutOthersCpu(report, findings);
  if (findings.others_cpu > 0) {
    absl::StrAppend(
        &headline.how_sure, headline.how_sure.empty() ? "" : " ",
        absl::StrFormat("Other programs took up to %.0f %% of the CPU.", 100 * findings.others_cpu));
  }
  return headline;
}

}  // namespace tethys
