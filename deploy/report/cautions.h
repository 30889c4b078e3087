// Short phrases that name the limits of a report's answer, for a reader who reads nothing else. The sentences
// with the numbers are in verdict.h. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_CAUTIONS_H_
#define TETHYS_DEPLOY_REPORT_CAUTIONS_H_

#include <string>
#include <vector>

#include "deploy/report/findings.h"
#include "proto/report.pb.h"

namespace tethys {

// One phrase per caution, for example "1 of 18 runs failed"; empty if there is no caution. A report on one
// variant has no cautions about comparing variants.
std::vector<std::string> Cautions(const proto::Report& report, const Findings& findings);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_CAUTIONS_H_
