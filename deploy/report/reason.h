// The reason for the answer of a comparison, in a few sentences for a reader who reads nothing else. All
// measurements behind the reason are in the sentences of explanation.h. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_REASON_H_
#define TETHYS_DEPLOY_REPORT_REASON_H_

#include <string>

#include "deploy/report/findings.h"
#include "proto/report.pb.h"

namespace tethys {

// Compares the variants that the headline names first (headline.h): the shares of the training time in which
// their workers compute and wait, what limits each variant, which part makes up a shown difference in time,
// and what may cause a shown difference in accuracy. Empty if no difference is shown or nothing was measured.
std::string Reason(const proto::Report& report, const Findings& findings);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REASON_H_
