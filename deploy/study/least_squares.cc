#include "deploy/study/least_squares.h"

#include <cmath>
#include <cstddef>
#include <utility>

namespace tethys {
namespace {

// A column counts as dependent if the part orthogonal to earlier columns is shorter than this share of its
// length.
constexpr double kDependent = 1e-9;

double Dot(absl::Span<const double> a, absl::Span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

bool LeastSquares::AddColumn(absl::Span<const double> column) {
  std::vector<double> rest(column.begin(), column.end());
  std::vector<double> coefficients(basis_.size() + 1, 0);
  // Gram-Schmidt, applied twice, so that the basis stays orthogonal up to rounding.
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < basis_.size(); ++i) {
      const double part = Dot(basis_[i], rest);
      coefficients[i] += part;
      for (size_t row = 0; row < rest.size(); ++row) rest[row] -= part * basis_[i][row];
    }
  }
  const double length = std::sqrt(Dot(rest, rest));
  if (length <= kDependent * std::sqrt(Dot(column, column)) || length == 0) {
    position_.push_back(-1);
    return false;
  }
  for (double& value : rest) value /= length;
  coefficients.back() = length;
  position_.push_back(rank());
  basis_.push_back(std::move(rest));
  triangle_.push_back(std::move(coefficients));
  return true;
}

std::vector<double> LeastSquares::Solve(absl::Span<const double> y) const {
  std::vector<double> kept(basis_.size());
  for (int i = rank() - 1; i >= 0; --i) {
    double value = Dot(basis_[i], y);
    for (int later = i + 1; later < rank(); ++later) value -= triangle_[later][i] * kept[later];
    kept[i] = value / triangle_[i][i];
  }
  std::vector<double> all;
  for (const int position : position_) all.push_back(position < 0 ? 0 : kept[position]);
  return all;
}

std::vector<double> LeastSquares::Fitted(absl::Span<const double> y) const {
  std::vector<double> fitted(y.size(), 0);
  for (const std::vector<double>& direction : basis_) {
    const double part = Dot(direction, y);
    for (size_t row = 0; row < y.size(); ++row) fitted[row] += part * direction[row];
  }
  return fitted;
}

double LeastSquares::Residual(absl::Span<const double> y) const {
  const std::vector<double> fitted = Fitted(y);
  double squares = 0;
  for (size_t row = 0; row < y.size(); ++row) squares += (y[row] - fitted[row]) * (y[row] - fitted[row]);
  return squares;
}

}  // namespace tethys
