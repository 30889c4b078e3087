// Why the fastest variant of a comparison was faster than the one it is held against: where a worker's
// training time went, what was moved, how stale gradients were, whether a worker was slow or a CPU full. It
// says what was measured, and where that does not suffice, so. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_EXPLANATION_H_
#define TETHYS_DEPLOY_REPORT_EXPLANATION_H_

#include <string>
#include <vector>

#include "proto/report.pb.h"

namespace tethys {

// Sentences, the most important first; none where nothing was measured. Of one variant alone: where its time
// went.
std::vector<std::string> Explanation(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_EXPLANATION_H_
