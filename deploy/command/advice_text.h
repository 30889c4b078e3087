// The answer of `tethys advise` as text for a terminal. Pure; any thread.
#ifndef TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_
#define TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_

#include <set>
#include <string>
#include <vector>

#include "deploy/predict/advice.h"

namespace tethys {

// What stands beside the choice.
struct AdviceNotes {
  std::string supposed;                // What --what_if says of the machines; empty: they are there.
  std::vector<std::string> changes;    // What would change the answer: a sentence each.
  std::vector<std::string> put_aside;  // Errors of candidates that cannot run here: a line each.
  std::set<std::string> left_out;      // A line each.
};

// A sentence with the choice and its reason, what would change it, a table of the best candidates, times and
// costs that none beats, and what was left out.
std::string AdviceText(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal,
                       const AdviceNotes& notes);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_
