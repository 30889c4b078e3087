// The conclusions of a comparison, in sentences for a reader who did not make it: the answer in one sentence
// (headline.h); the fastest variant, by how much and how surely; parameter servers against mirrored workers;
// a recommendation; the first at the target accuracy; differences in accuracy; costs; and the limits of all
// that. A variant with a single run is not ranked. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_VERDICT_H_
#define TETHYS_DEPLOY_REPORT_VERDICT_H_

#include <string>
#include <vector>

#include "proto/report.pb.h"

namespace tethys {

// True if a model is hardly better than a guess that is right with probability `chance`, in (0, 1]: its
// accuracy is at most twice `chance`, or at most a tenth of the way from `chance` to 1, whichever is less.
bool IsAtChance(double accuracy, double chance);

// At least one sentence, the most important first. A difference that may be noise is described as such
// (report_value.h).
std::vector<std::string> Verdict(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_VERDICT_H_
