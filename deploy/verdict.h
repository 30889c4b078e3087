// What a comparison says, in sentences for somebody who was not there: which variant was fastest, by how much
// and how sure that is, whether accuracy differs, what it cost. Pure; any thread.
#ifndef TETHYS_DEPLOY_VERDICT_H_
#define TETHYS_DEPLOY_VERDICT_H_

#include <string>
#include <vector>

#include "proto/report.pb.h"

namespace tethys {

// A quotient of two means with its standard error, by first-order propagation; the error is negative where
// one of them was measured only once: nothing is known of it.
struct Ratio {
  double value = 0;
  double error = -1;
};
Ratio RatioOf(const proto::ReportValue& numerator, const proto::ReportValue& denominator);

// Of a mean over its runs; negative for one run.
double StandardError(const proto::ReportValue& value);

// "13.70 ± 0.05": scaled, rounded where the standard error, if there is one, has its second digit.
std::string MeanText(const proto::ReportValue& value, double scale = 1);

// The most important first; at least one sentence. A difference counts as noise where it lies within the 95 %
// confidence interval around 0: its standard error times Student's t with as many degrees of freedom as the
// less often measured of the two has runs, less one.
std::vector<std::string> Verdict(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_VERDICT_H_
