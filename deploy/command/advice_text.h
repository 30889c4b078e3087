// The answer of `tethys advise` as text for a terminal. Pure; any thread.
#ifndef TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_
#define TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_

#include <set>
#include <string>
#include <vector>

#include "deploy/predict/advice.h"
#include "proto/summary.pb.h"

namespace tethys {

// The remarks that are printed with the choice.
struct AdviceNotes {
  std::string supposed;                // The machines that --what_if supposes; empty: they exist.
  std::vector<std::string> changes;    // Sentences on changes to the answer.
  std::vector<std::string> put_aside;  // Errors of candidates that cannot run here: a line each.
  std::string noise;                   // NoiseScaleText of a run; may be empty.
  std::set<std::string> left_out;      // A line each.
};

// The noise scale of a run on the job's own data, which concerns the batch and not the choice. Empty: it is
// not known (runtime/telemetry/gradient_noise.h).
std::string NoiseScaleText(const proto::RunSummary& run);

// A sentence with the choice and its reason, what would change it, a table of the best candidates, times and
// costs that none beats, and what was left out.
std::string AdviceText(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal,
                       const AdviceNotes& notes);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_ADVICE_TEXT_H_
