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

// The most important first; at least one sentence. A difference of accuracies counts as noise below twice its
// standard error.
std::vector<std::string> Verdict(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_VERDICT_H_
