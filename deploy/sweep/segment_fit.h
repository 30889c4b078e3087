// Fits straight lines to successive parts of a curve: as few lines as the noise allows, each over at least
// four points. An exact dynamic programme over weighted squares, O(points^2 x lines). Pure; any thread.
#ifndef TETHYS_DEPLOY_SWEEP_SEGMENT_FIT_H_
#define TETHYS_DEPLOY_SWEEP_SEGMENT_FIT_H_

#include <array>
#include <cstddef>
#include <vector>

namespace tethys {

struct LineFit {
  double at_zero = 0;
  double slope = 0;
  double At(double x) const { return at_zero + slope * x; }
};

struct SegmentFitOptions {
  size_t least_points = 4;  // The least number of points in a segment.
  size_t most_cuts = 8;
  double penalty = 24;  // A cut must reduce chi-square by more than this.
};

// The points of a curve with the relative standard error of each value.
class CurvePoints {
 public:
  // Requires ascending `x`, and `y` and `error` above 0.
  CurvePoints(std::vector<double> x, std::vector<double> y, double error);

  size_t size() const { return x_.size(); }
  const std::vector<double>& x() const { return x_; }
  const std::vector<double>& y() const { return y_; }

  // The line through points [begin, end) with the least weighted sum of squares, and this sum (chi-square).
  // With one point the line is level. Requires begin < end <= size().
  LineFit Line(size_t begin, size_t end) const;
  double Cost(size_t begin, size_t end) const;

 private:
  std::vector<double> x_, y_;
  // For each point, the sums of w, wx, wy, wxx, wxy, wyy over the points before it.
  std::vector<std::array<double, 6>> sums_;
};

// The index of the first point of each segment, without the first segment, in ascending order.
std::vector<size_t> FindCuts(const CurvePoints& points, const SegmentFitOptions& options = {});

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_SEGMENT_FIT_H_
