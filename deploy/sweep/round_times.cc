#include "deploy/sweep/round_times.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/quantile.h"

namespace tethys {
namespace {

constexpr double kLeastError = 0.003;

double LowerQuartileOf(const RoundTimes& rounds, size_t batch, size_t first, size_t step) {
  std::vector<double> times;
  for (size_t round = first; round < rounds.time.size(); round += step) {
    if (rounds.time[round][batch] > 0) times.push_back(rounds.time[round][batch]);
  }
  return Quantile(std::move(times), 0.25);
}

}  // namespace

std::vector<double> LowerQuartiles(const RoundTimes& rounds, size_t first, size_t step) {
  std::vector<double> values(rounds.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LowerQuartileOf(rounds, i, first, step);
    if (values[i] == 0) values[i] = LowerQuartileOf(rounds, i, 0, 1);
  }
  return values;
}

double DeviationByMedian(const std::vector<double>& values) {
  const double median = Median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - median));
  return 1.4826 * Median(std::move(distances));
}

double PooledError(const std::vector<double>& batch, const std::vector<double>& values) {
  // Distances from the line through the neighbours, in standard errors of one value.
  std::vector<double> off;
  for (size_t i = 1; i + 1 < values.size(); ++i) {
    const double before = (batch[i + 1] - batch[i]) / (batch[i + 1] - batch[i - 1]), after = 1 - before;
    const double distance = values[i] - before * values[i - 1] - after * values[i + 1];
    off.push_back(std::abs(distance) / std::sqrt(1 + before * before + after * after) / values[i]);
  }
  return std::max(kLeastError, 1.4826 * Median(std::move(off)));
}

}  // namespace tethys
