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
  // True if other programs used more than kDisturbed (disturbance.h) of the CPU during the calibration.
  bool calibration_disturbed = false;
  // The share of the CPU that other programs used during the brief runs; 0 is not printed.
  double others_cpu = 0;
  std::string places;  // PlacesText of the chosen candidate; empty: the candidate runs on this machine.
  std::vector<std::string> changes;  // Sentences on what would change the answer (AdviceChanges).
  // Errors of candidates that cannot run here: one line for each candidate.
  std::vector<std::string> put_aside;
  std::string normalisation;       // NormalisationRemark of the chosen job; may be empty.
  std::string noise;               // NoiseScaleText of a brief run; may be empty.
  std::set<std::string> left_out;  // Why shapes (AnchorShape) were left out: one line for each shape.
};

// A table of the processes that each host runs in a job on `machines`, which are some of the hosts.
std::string PlacesText(const std::vector<HostEntry>& hosts, const JobMachines& machines);

// A sentence on the noise scale that a run on the job's own data measured. The noise scale bears on the
// choice of the batch, not of the strategy. Empty: the noise scale is not known
// (runtime/telemetry/gradient_noise.h).
std::string NoiseScaleText(const proto::RunSummary& run);

// A sentence on a larger number of machines that is slower than one machine, or not shown to be faster: the
// best candidate on several machines or, if it is faster, the best candidate on the most machines. Empty if
// both are faster, or if no synchronous candidates run on one machine and on several.
std::string MachinesText(const std::vector<Candidate>& candidates);

// The text contains, in this order: a sentence with the choice and its reason, the source of the predictions,
// the processes of each host, what would change the choice, tables of the best candidates, the candidates
// that no other candidate beats in both time and cost, and what was left out.
std::string AdviceText(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal,
                       const AdviceNotes& notes);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_ADVICE_TEXT_H_
