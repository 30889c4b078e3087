// The conclusions of a comparison, in sentences for a reader who did not make the comparison. They state the
// answer in one sentence (headline.h), the fastest variant with its advantage and the certainty of this
// advantage, the comparison of parameter servers with mirrored workers, the first variant to reach the target
// accuracy, differences in accuracy, costs, and the limits of these conclusions. A variant with a single run
// is not ranked. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_VERDICT_H_
#define TETHYS_DEPLOY_REPORT_VERDICT_H_

#include <string>
#include <vector>

#include "deploy/report/findings.h"
#include "proto/report.pb.h"

namespace tethys {

// At least one sentence, the most important first. A difference that may be noise is described as such
// (report_value.h).
std::vector<std::string> Verdict(const proto::Report& report, const Findings& findings);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_VERDICT_H_
