// Strategies in plain words, for readers who do not know the names of job files. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_STRATEGY_WORDS_H_
#define TETHYS_DEPLOY_REPORT_STRATEGY_WORDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// A strategy with its processes: "one worker alone", "3 mirrored workers", "3 workers at most 2 steps apart
// with 1 parameter server". `strategy`: a name by StrategyName (runtime/job/job.h); another text is repeated
// as it is.
std::string ShapeWords(absl::string_view strategy, int workers, int servers);

// Whether workers of a strategy, by StrategyName, push gradients of different versions of the parameters:
// asynchronous and stale-synchronous servers, whatever the bound.
bool IsLeased(absl::string_view strategy);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_STRATEGY_WORDS_H_
