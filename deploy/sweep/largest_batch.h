// Finds the largest batch that really fits: beginning with a forecast, by trying. Blocks for the tries.
#ifndef TETHYS_DEPLOY_SWEEP_LARGEST_BATCH_H_
#define TETHYS_DEPLOY_SWEEP_LARGEST_BATCH_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "runtime/base/status.h"

namespace tethys {

struct LargestFit {
  int64_t fits = 0;       // The largest batch that was tried with success; 0: none.
  int64_t too_large = 0;  // The smallest that was tried without; 0: none.
  int tries = 0;
  // Whether no batch between them is further from `fits` than 2 % (or 1).
  bool exact() const { return too_large > 0 && too_large - fits <= 1 + fits / 50; }
};

// `forecast` is at least 1; no batch above `most` is tried. `go_on` is asked before every try after the
// first. Stops at an error of `tries` and returns it.
absl::StatusOr<LargestFit> FindLargestBatch(int64_t forecast, int64_t most,
                                            absl::FunctionRef<absl::StatusOr<bool>(int64_t batch)> tries,
                                            absl::FunctionRef<bool()> go_on);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_LARGEST_BATCH_H_
