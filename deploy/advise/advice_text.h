// The answer of `tethys advise` as text for a terminal. Pure; any thread.
#ifndef TETHYS_DEPLOY_ADVISE_ADVICE_TEXT_H_
#define TETHYS_DEPLOY_ADVISE_ADVICE_TEXT_H_

#include <set>
#include <string>
#include <vector>

#include "deploy/predict/advice.h"
#include "deploy/predict/machines.h"
#include "proto/summary.pb.h"
#include "runtime/cluster/host_file.h"

namespace tethys {

// The remarks that are printed with the choice.
struct AdviceNotes {
  std::string supposed;  // The machines that --what_if supposes; empty: the machines exist.
  std::string source;    // Where the predictions come from (CalibratedText in job_prediction.h).
  // True if the share of the CPU that other programs used during the calibration exceeds kDisturbed
  // (disturbance.h).
  bool calibration_disturbed = false;
  // The share of the CPU that other programs used during the brief runs; 0 is not printed.
  double others_cpu = 0;
  std::string places;  // PlacesText of the chosen candidate; empty: the candidate runs on this machine.
  std::vector<std::string> changes;  // Sentences on what would change the answer (AdviceChanges).
  // Errors of candidates that are not considered because a brief run failed: one line for each candidate.
  std::vector<std::string> put_aside;
  std::string normalisation;  // NormalisationRemark of the chosen job; may be empty.
  std::string noise;          // NoiseScaleText of a brief run; may be empty.
  // One line for each shape (strategy and numbers of processes) that was left out: the shape and the reason.
  std::set<std::string> left_out;
};

// A table of the processes that each host runs in a job. `machines` are those of `hosts` that the job uses.
std::string PlacesText(const std::vector<HostEntry>& hosts, const JobMachines& machines);

// A sentence on the noise scale that a run on the job's own data measured. The noise scale matters for the
// choice of the batch size, not of the strategy. Empty: the noise scale is not known
// (runtime/telemetry/gradient_noise.h).
std::string NoiseScaleText(const proto::RunSummary& run);

// Compares the best synchronous candidate on one machine with two others: the best on several machines, and
// the best on the largest number of machines. Returns a sentence on the first of these two that is slower
// than the best on one machine, or not shown to be faster. Empty if both are shown to be faster, if all
// synchronous candidates run on one machine, or if all run on several machines.
std::string MachinesText(const std::vector<Candidate>& candidates);

// The text contains, in this order: a sentence with the choice and its reason, the source of the predictions,
// the processes of each host, what would change the choice, tables of the best candidates, the candidates
// that no other candidate beats in both time and cost, and what was left out.
std::string AdviceText(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal,
                       const AdviceNotes& notes);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_ADVICE_TEXT_H_
