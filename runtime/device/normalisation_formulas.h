// The formulas of batch normalisation that both back ends use. Included by the back ends only.
#ifndef TETHYS_RUNTIME_DEVICE_NORMALISATION_FORMULAS_H_
#define TETHYS_RUNTIME_DEVICE_NORMALISATION_FORMULAS_H_

#include <cstdint>

#include "runtime/device/formula.h"

namespace tethys {
namespace {

// The number of the first row of a group, if `samples` rows are split into `groups` groups
// (BatchNormalisationShape). For `group` = `groups`, returns the number of samples.
TETHYS_FORMULA int64_t GroupBegin(int64_t samples, int64_t groups, int64_t group) {
  const int64_t longer = samples % groups;
  return group * (samples / groups) + (group < longer ? group : longer);
}

// Merges the mean and the sum of squared deviations of `part` values into the mean and the sum of `before`
// values, by Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979.
TETHYS_FORMULA void MergeMoments(double before, double part, double part_mean, double part_squares,
                                 double& mean, double& squares) {
  const double weight = part / (before + part), difference = part_mean - mean;
  mean += difference * weight;
  squares += part_squares + difference * difference * before * weight;
}

// The factor that turns the variance of a population of `count` values into the estimate of the variance from
// a sample.
TETHYS_FORMULA double SampleFactor(double count) { return count < 2 ? 1 : count / (count - 1); }

}  // namespace
}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_NORMALISATION_FORMULAS_H_
