// The answer of a comparison in one sentence that a reader can repeat: which variant to train with, how
// surely, and why. verdict.h puts it first. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_HEADLINE_H_
#define TETHYS_DEPLOY_REPORT_HEADLINE_H_

#include <string>

#include "proto/report.pb.h"

namespace tethys {

// `report` must have at least two variants that succeeded. Those that ran only once are left
// out; if fewer than two remain, nothing is recommended, and the sentence says what to do.
std::string Headline(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_HEADLINE_H_
