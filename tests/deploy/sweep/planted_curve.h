// Sweeps over batches 1 to 70 whose true times are known, with the noise of a shared machine.
#ifndef TETHYS_TESTS_DEPLOY_SWEEP_PLANTED_CURVE_H_
#define TETHYS_TESTS_DEPLOY_SWEEP_PLANTED_CURVE_H_

#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "deploy/sweep/round_times.h"

namespace tethys {

struct Noise {
  double of_visit = 0.0122;  // Standard deviation of log(time) of a visit, which measures one batch.
  double disturbed =
      0.3;  // The share of visits that are 20 % longer on average although they do not look disturbed.
};

using TrueTime = std::function<double(double batch)>;

// The times of the MLP of the main study, in milliseconds: almost a line.
inline double MlpTime(double batch) { return 0.3 + 0.0075 * batch; }
// The times of VGG on a GPU as published: a line with jumps after multiples of 16.
inline double VggTime(double batch) { return 20 + 4 * batch + 10 * std::floor((batch - 1) / 16); }

inline RoundTimes PlantedSweep(const TrueTime& truth, int rounds, std::mt19937_64& random,
                               const Noise& noise = {}, int last = 70, int every = 1) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::exponential_distribution<double> longer(5);
  RoundTimes made;
  for (int batch = 1; batch <= last; batch += every) made.batch.push_back(batch);
  for (int round = 0; round < rounds; ++round) {
    std::vector<double>& times = made.time.emplace_back();
    for (const double batch : made.batch) {
      times.push_back(truth(batch) * std::exp(noise.of_visit * normal(random)));
      if (uniform(random) < noise.disturbed) times.back() *= 1 + longer(random);
    }
  }
  return made;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_DEPLOY_SWEEP_PLANTED_CURVE_H_
