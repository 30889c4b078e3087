// Quantiles of samples. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_QUANTILE_H_
#define TETHYS_RUNTIME_BASE_QUANTILE_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tethys {

// The quantile of `values` at `share`, which is in [0, 1]: interpolated between two neighbours of the sorted
// values. 0 if there are no values.
inline double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

inline double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_QUANTILE_H_
