// Least squares by an orthogonal factorisation, for small designs. Columns that depend on earlier ones, as
// missing combinations of levels cause them, are left out. Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_STUDY_LEAST_SQUARES_H_
#define TETHYS_DEPLOY_STUDY_LEAST_SQUARES_H_

#include <vector>

#include "absl/types/span.h"

namespace tethys {

class LeastSquares {
 public:
  // Adds a column of the design; all have one length. Returns whether it is independent of those before it.
  bool AddColumn(absl::Span<const double> column);

  int rank() const { return static_cast<int>(basis_.size()); }
  // Whether column `i`, in the order added, is part of the fit.
  bool Kept(int i) const { return position_[i] >= 0; }

  // A coefficient for each column added; 0 for those left out.
  std::vector<double> Solve(absl::Span<const double> y) const;
  // The fitted values.
  std::vector<double> Fitted(absl::Span<const double> y) const;
  // The sum of squares that the fit leaves.
  double Residual(absl::Span<const double> y) const;

 private:
  std::vector<std::vector<double>> basis_;     // Orthonormal.
  std::vector<std::vector<double>> triangle_;  // Column i of R: coefficients of kept column i in the basis.
  std::vector<int> position_;  // By added column: its position among the kept ones; -1: it was left out.
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_LEAST_SQUARES_H_
