// Phrases of the headline: names, numbers of runs, intervals and differences. A difference is "shown" if it
// is significant by DifferenceOf (report_value.h). Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_HEADLINE_WORDS_H_
#define TETHYS_DEPLOY_REPORT_HEADLINE_WORDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "deploy/report/headline.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"

namespace tethys {

// The number of runs: "3 runs of each", "3 to 5 runs of each".
std::string RunsText(const Runs& runs);
// The end of a sentence that states intervals: " (95 % confidence, 3 runs of each)."
std::string Evidence(const Runs& runs);

// The interval of a quotient: "between 1.62 and 1.78 times".
std::string TimesInterval(const Contrast& ratio);
// The interval of a difference between accuracies: "between 0.75 and 1.25 percentage points".
std::string PointsInterval(const Interval& points);

// A shown difference between accuracies: "1.00 percentage points more accurate".
std::string PointsText(const Contrast& points);
// Ends a sentence on variants whose accuracies are not shown to differ. `half`: half the width of the 95 %
// interval of the difference. `runs`: the number of runs of each variant.
std::string NoDifferenceText(double half, int runs);
// Ends a sentence on speed with the difference in accuracy between choice and rival. `choice_is`: the words
// before a shown difference, such as ", and is".
std::string AccuracyText(const proto::ReportVariant& choice, const proto::ReportVariant& rival,
                         Accuracy accuracy, const std::string& choice_is);
// The confidence interval of the difference that AccuracyText states.
std::string AccuracyInterval(const proto::ReportVariant& choice, const proto::ReportVariant& rival,
                             Accuracy accuracy);
// Describes a faster variant that is not chosen because it is less accurate than `most`. Both differences, in
// speed and in accuracy, must be shown differences.
std::string FasterText(const proto::ReportVariant& faster, const std::string& its_name,
                       const proto::ReportVariant& choice, const proto::ReportVariant& most,
                       Accuracy accuracy);

// The names of variants: "A (mirrored), B (ps_sync) or C (ps_async)", "A, B, C or 2 others". If a list of
// more than two variants would become long, the result has only their letters, which the legend explains.
std::string NamesOf(const Ranking& variants, absl::string_view last);
// The name of a variant for the text after `before`: with its meaning (IntroducedName), unless `before`
// already contains the name with its meaning.
std::string NameAfter(const std::string& before, const proto::ReportVariant& variant);

// The headline for several variants, none of which is shown to be better than the others.
Headline TieHeadline(const proto::Report& report, const Findings& findings);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_HEADLINE_WORDS_H_
