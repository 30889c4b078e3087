// The times of a sweep in the form that the fits take: one time for each batch size in each round. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_SWEEP_ROUND_TIMES_H_
#define TETHYS_DEPLOY_SWEEP_ROUND_TIMES_H_

#include <cstddef>
#include <vector>

namespace tethys {

struct RoundTimes {
  std::vector<double> batch;              // The batches, ascending.
  std::vector<std::vector<double>> time;  // [round][batch], in seconds; 0: not measured, or disturbed.

  size_t size() const { return batch.size(); }
};

// For each batch the lower quartile over rounds `first`, first + step, ...; a batch without a time gets the
// quartile over all rounds, or 0.
std::vector<double> LowerQuartiles(const RoundTimes& rounds, size_t first = 0, size_t step = 1);

// 1.4826 x the median distance from the median, which is the standard deviation of normal values.
double DeviationByMedian(const std::vector<double>& values);

// The common relative standard error of values at ascending `batch`, estimated from the distance of each
// value from the line through its neighbours. Slopes and single jumps of the curve do not raise the estimate,
// but fluctuating values do. At least 0.3 %.
double PooledError(const std::vector<double>& batch, const std::vector<double>& values);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_ROUND_TIMES_H_
