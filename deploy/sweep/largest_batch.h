// Finds the largest batch that fits into the memory of the device, by trying, beginning with a forecast.
// Blocks during the tries.
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
  // True if all batches between `fits` and `too_large` exceed `fits` by at most 2 % (or there are none).
  bool exact() const { return too_large > 0 && too_large - fits <= 1 + fits / 50; }
};

// `tries` returns whether a batch fits. If `tries` returns an error, the search ends and returns this error.
// `forecast` must be at least 1; no batch above `most` is tried. `go_on` is called before every try after the
// first, and ends the search by returning false.
absl::StatusOr<LargestFit> FindLargestBatch(int64_t forecast, int64_t most,
                                            absl::FunctionRef<absl::StatusOr<bool>(int64_t batch)> tries,
                                            absl::FunctionRef<bool()> go_on);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_LARGEST_BATCH_H_
