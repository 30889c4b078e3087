// The effects of a study's factors on a measure: y, or its logarithm, is a sum of a part for the block, a
// part for each factor's level, and a part for each pair of levels. Levels are coded as deviations from the
// mean over levels (effect coding). Combinations may be missing. Pure; any thread.
//
//   share of a term (eta squared): the sum of squares that the term explains beyond all terms that do not
//     contain this term, divided by the sum of squares within blocks
//   p: how often this share is reached when the residuals of the model without the term are permuted within
//     blocks (Freedman and Lane, 1983), corrected for the number of terms after Holm; no F distribution is
//     assumed
//   interval: percentiles of fits to blocks drawn with replacement. The distance of a percentile from the
//     effect is widened as Student's t is wider than the normal distribution, because few blocks drawn with
//     replacement vary too little (Hesterberg, "What teachers should know about the bootstrap", 2015)
#ifndef TETHYS_DEPLOY_STUDY_EFFECTS_H_
#define TETHYS_DEPLOY_STUDY_EFFECTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

struct Observation {
  int block = 0;
  std::vector<int> level;  // The level of each factor.
  double value = 0;
};

struct EffectsOptions {
  // True: effects are ratios, and all values must be positive. False: effects are differences.
  bool logarithm = true;
  int permutations = 2000;
  int draws = 1000;
  uint64_t seed = 0;
};

// The effect of a level, or of a pair of levels, against the mean.
struct LevelEffect {
  std::vector<int> level;                      // The level of each of the term's factors.
  double value = 0;                            // The effect: a ratio or a difference.
  absl::optional<double> low = {}, high = {};  // The 95 % interval; nullopt: fewer than three blocks.
};

struct TermEffects {
  std::vector<int> factors;  // The indices of one or two factors.
  double eta_squared = 0;
  absl::optional<double> p;        // nullopt: no runs are left over to estimate noise from.
  std::vector<LevelEffect> level;  // Empty if the effects are undetermined because combinations are missing.
};

// The terms, first the terms of one factor. Terms that the observations cannot separate from other terms are
// left out. `levels`: the number of levels of each factor. InvalidArgument: too few observations, or a value
// without a logarithm.
absl::StatusOr<std::vector<TermEffects>> FitEffects(absl::Span<const int> levels,
                                                    absl::Span<const Observation> observations,
                                                    const EffectsOptions& options);

// The p values corrected after Holm, in the order of `p`.
std::vector<double> HolmAdjusted(absl::Span<const double> p);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_EFFECTS_H_
