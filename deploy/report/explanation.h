// The reasons why the fastest variant of a comparison was faster than its rival: the parts of a worker's
// training time, the bytes moved, the staleness of gradients, slow workers and full CPUs. The text states
// measurements, and says so if they do not suffice. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_EXPLANATION_H_
#define TETHYS_DEPLOY_REPORT_EXPLANATION_H_

#include <string>
#include <vector>

#include "deploy/report/findings.h"
#include "proto/report.pb.h"

namespace tethys {

// Sentences, the most important first; none if nothing was measured. If the sentences compare another pair of
// variants than the headline does (Findings::explained), the first sentence says so. For a single variant,
// the sentences name the parts of its training time.
std::vector<std::string> Explanation(const Findings& findings);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_EXPLANATION_H_
