// Brief runs by which `tethys advise` verifies its predictions. In each round, every candidate that may still
// be the best makes one run, in random order. A candidate that is clearly slower does not run in further
// rounds. Blocking; call it on the main thread.
#ifndef TETHYS_DEPLOY_ADVISE_VERIFICATION_H_
#define TETHYS_DEPLOY_ADVISE_VERIFICATION_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/advise/candidate_job.h"
#include "deploy/flags/flags.h"
#include "deploy/predict/advice.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

struct VerificationRequest {
  AdviceGoal goal;
  int most = 6;           // The most candidates to verify.
  Nanoseconds until = 0;  // No further round begins after this time of a MonotonicClock.
  // If true, at least two rounds are made, and each round may add candidates that its results make promising
  // (ToVerifyNext).
  bool extend = false;
  uint64_t seed = 0;  // Seed of the order of runs.
};

struct VerificationNotes {
  // Errors of candidates that are not considered because a brief run failed: one line for each candidate.
  std::vector<std::string> put_aside;
  std::string noise;  // NoiseScaleText of a brief run; may be empty.
  // The median over the runs of the share of the CPU that other programs used; nullopt: not known.
  absl::optional<double> others_cpu;
};

// Sets Candidate.measured. A candidate with a failed run is removed from `found`; if all candidates fail,
// VerifyCandidates fails. Cancelled: the user interrupted. Also fails as PlaceBriefly.
absl::StatusOr<VerificationNotes> VerifyCandidates(const Flags& flags, const VerificationRequest& request,
                                                   CandidateJobs& found);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_VERIFICATION_H_
