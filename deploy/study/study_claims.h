// Published statements of the form "A is more than B", checked on a study's runs. Pure; any thread.
#ifndef TETHYS_DEPLOY_STUDY_STUDY_CLAIMS_H_
#define TETHYS_DEPLOY_STUDY_STUDY_CLAIMS_H_

#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "deploy/study/study_file.h"
#include "proto/study.pb.h"

namespace tethys {

// The value of a measure in one run. `cell`: the index of the run's combination of levels
// (LoadedStudy::cells).
struct ClaimValue {
  int cell = 0;
  int block = 0;
  double value = 0;
};

// Pairs every combination that matches `more` with the combination that matches `less` and has the same
// levels of all factors that neither `more` nor `less` names. The result has one figure: the geometric mean
// of the pairs' ratios or, for measures whose effects are differences, the mean of the pairs' differences.
// With several blocks the figure has a 95 % interval by Student's t over blocks. The verdict is "holds" or
// "does not hold" if the interval decides the claim, otherwise "not decided". With one block there is no
// interval, because the pairs are of different combinations and do not repeat each other. The figure may then
// be due to chance.
proto::ClaimResult CheckClaim(const LoadedStudy& study, const proto::Claim& claim,
                              absl::Span<const ClaimValue> values);

// The published value of a cell; nullopt: there is none.
absl::optional<double> PublishedOf(const LoadedStudy& study, int cell, const std::string& measure);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_STUDY_CLAIMS_H_
