// Finds the largest batch that really fits, by trying, beginning with a forecast. Blocks during the tries.
#ifndef TETHYS_DEPLOY_SWEEP_LARGEST_BATCH_H_
#define TETHYS_DEPLOY_SWEEP_LARGEST_BATCH_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "runtime/base/status.h"

namespace tethys {

struct LargestFit {
  int64_t fits = 0;       // The largest batch that fitted; 0: none.
  int64_t too_large = 0;  // The smallest batch that did not fit; 0: none.
  int tries = 0;
  // True if no batch between the two is further from `fits` than 2 % (or 1).
  bool exact() const { return too_large > 0 && too_large - fits <= 1 + fits / 50; }
};

// `forecast` is at least 1; no batch above `most` is tried. `go_on` is asked before every try after the
// first. An error of `tries` ends the search and is returned.
absl::StatusOr<LargestFit> FindLargestBatch(int64_t forecast, int64_t most,
                                            absl::FunctionRef<absl::StatusOr<bool>(int64_t batch)> tries,
                                            absl::FunctionRef<bool()> go_on);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_LARGEST_BATCH_H_
