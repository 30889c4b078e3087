// The reason for the answer of a comparison, in a few sentences for a reader who reads nothing else;
// explanation.h has all measurements behind it. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_REASON_H_
#define TETHYS_DEPLOY_REPORT_REASON_H_

#include <string>

#include "proto/report.pb.h"

namespace tethys {

// Compares the variants that the headline names first (headline.h): the shares of training that their workers
// compute and wait, what limits each, and which part makes up the difference. Of variants none of which is
// shown to be faster it says what sets one of them apart, and why the best other one is slower. Empty if none
// of that was measured.
std::string Reason(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REASON_H_
