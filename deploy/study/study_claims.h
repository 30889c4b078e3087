// Published statements of the form "A is more than B", checked on a study's runs. Pure; any thread.
#ifndef TETHYS_DEPLOY_STUDY_STUDY_CLAIMS_H_
#define TETHYS_DEPLOY_STUDY_STUDY_CLAIMS_H_

#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "deploy/study/study_file.h"
#include "proto/study.pb.h"

namespace tethys {

// A value of a run.
struct ClaimValue {
  int cell = 0;
  int block = 0;
  double value = 0;
};

// Pairs every combination that matches `more` with the one that matches `less` and has the same levels of all
// factors that neither of them names. The figure is the mean over pairs: of ratios (geometric) or, for
// measures whose effects are differences, of differences; with several blocks, with a 95 % interval by
// Student's t over blocks. "holds" and "does not hold" if the interval says so, otherwise "not decided": with
// one block a difference may be chance, because pairs of unlike combinations are no repetitions.
proto::ClaimResult CheckClaim(const LoadedStudy& study, const proto::Claim& claim,
                              absl::Span<const ClaimValue> values);

// The published value of a cell; nullopt: none is.
absl::optional<double> PublishedOf(const LoadedStudy& study, int cell, const std::string& measure);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_STUDY_CLAIMS_H_
