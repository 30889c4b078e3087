// The answer of `tethys advise` as text for a terminal. Pure; any thread.
#ifndef TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_
#define TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_

#include <set>
#include <string>
#include <vector>

#include "deploy/predict/advice.h"

namespace tethys {

// A sentence with the choice and its reason, a table of the best candidates, times and costs that none beats,
// and what was left out. `left_out`: a line each. `supposed`: what --what_if says of the machines; empty:
// they are there.
std::string AdviceText(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal,
                       const std::set<std::string>& left_out, const std::string& supposed);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_
