#include "deploy/sweep/segment_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tethys {

CurvePoints::CurvePoints(std::vector<double> x, std::vector<double> y, double error)
    : x_(std::move(x)), y_(std::move(y)), sums_(x_.size() + 1) {
  for (size_t i = 0; i < x_.size(); ++i) {
    const double weight = 1 / (error * y_[i] * error * y_[i]);
    const std::array<double, 6> more = {1, x_[i], y_[i], x_[i] * x_[i], x_[i] * y_[i], y_[i] * y_[i]};
    for (size_t k = 0; k < more.size(); ++k) sums_[i + 1][k] = sums_[i][k] + weight * more[k];
  }
}

LineFit CurvePoints::Line(size_t begin, size_t end) const {
  std::array<double, 6> s;
  for (size_t k = 0; k < s.size(); ++k) s[k] = sums_[end][k] - sums_[begin][k];
  const double spread = s[0] * s[3] - s[1] * s[1];
  if (end - begin < 2 || spread <= 0) return {.at_zero = s[2] / s[0]};
  const double slope = (s[0] * s[4] - s[1] * s[2]) / spread;
  return {.at_zero = (s[2] - slope * s[1]) / s[0], .slope = slope};
}

double CurvePoints::Cost(size_t begin, size_t end) const {
  const LineFit line = Line(begin, end);
  const auto sum = [&](size_t k) { return sums_[end][k] - sums_[begin][k]; };
  return std::max(0.0, sum(5) - line.at_zero * sum(2) - line.slope * sum(4));
}

std::vector<size_t> FindCuts(const CurvePoints& points, const SegmentFitOptions& options) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const size_t count = points.size(), least = options.least_points;
  if (count < 2 * least) return {};
  const size_t most = std::min(options.most_cuts, count / least - 1);
  // The least cost of one segment, [begin][end].
  std::vector<double> single((count + 1) * (count + 1), kNever);
  const auto cost = [&](size_t begin, size_t end) -> double& { return single[begin * (count + 1) + end]; };
  for (size_t begin = 0; begin + least <= count; ++begin) {
    for (size_t end = begin + least; end <= count; ++end) cost(begin, end) = points.Cost(begin, end);
  }
  // best[k][end]: the least cost of points [0, end) with k cuts; last[k][end]: the last of these cuts.
  std::vector<std::vector<double>> best(most + 1, std::vector<double>(count + 1, kNever));
  std::vector<std::vector<size_t>> last(most + 1, std::vector<size_t>(count + 1, 0));
  for (size_t end = least; end <= count; ++end) best[0][end] = cost(0, end);
  for (size_t k = 1; k <= most; ++k) {
    for (size_t end = (k + 1) * least; end <= count; ++end) {
      for (size_t cut = k * least; cut + least <= end; ++cut) {
        const double all = best[k - 1][cut] + cost(cut, end);
        if (all < best[k][end]) best[k][end] = all, last[k][end] = cut;
      }
    }
  }
  size_t chosen = 0;
  const auto penalised = [&](size_t k) { return best[k][count] + options.penalty * static_cast<double>(k); };
  for (size_t k = 1; k <= most; ++k) {
    if (penalised(k) < penalised(chosen)) chosen = k;
  }
  std::vector<size_t> cuts;
  for (size_t k = chosen, end = count; k > 0; --k) cuts.push_back(end = last[k][end]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace tethys
