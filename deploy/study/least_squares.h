// Least squares by an orthogonal factorisation, for small designs. Columns that depend on earlier columns are
// left out; missing combinations of levels cause such columns. Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_STUDY_LEAST_SQUARES_H_
#define TETHYS_DEPLOY_STUDY_LEAST_SQUARES_H_

#include <vector>

#include "absl/types/span.h"

namespace tethys {

class LeastSquares {
 public:
  // Adds a column of the design; all columns have one length. Returns true if it is independent of the
  // columns before it.
  bool AddColumn(absl::Span<const double> column);

  int rank() const { return static_cast<int>(basis_.size()); }
  // True if column `i`, in the order of adding, is part of the fit.
  bool Kept(int i) const { return position_[i] >= 0; }

  // A coefficient for each added column; 0 for a column that was left out.
  std::vector<double> Solve(absl::Span<const double> y) const;
  // The fitted values.
  std::vector<double> Fitted(absl::Span<const double> y) const;
  // The sum of squared residuals of the fit.
  double Residual(absl::Span<const double> y) const;

 private:
  std::vector<std::vector<double>> basis_;     // Orthonormal vectors.
  std::vector<std::vector<double>> triangle_;  // Column i of R: coefficients of kept column i in the basis.
  // The position of each added column among the kept columns; -1: it was left out.
  std::vector<int> position_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_LEAST_SQUARES_H_
