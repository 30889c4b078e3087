#include "deploy/sweep/largest_batch.h"

#include <algorithm>

namespace tethys {
namespace {

// The search first moves away from the forecast by 1/50 (2 %) of the forecast, and doubles each further move.
// So a good forecast costs two tries.
constexpr int64_t kFirstStepOf = 50;

}  // namespace

absl::StatusOr<LargestFit> FindLargestBatch(int64_t forecast, int64_t most,
                                            absl::FunctionRef<absl::StatusOr<bool>(int64_t batch)> tries,
                                            absl::FunctionRef<bool()> go_on) {
  LargestFit found;
  int64_t next = std::clamp<int64_t>(forecast, 1, most), step = std::max<int64_t>(1, next / kFirstStepOf);
  while (true) {
    TETHYS_ASSIGN_OR_RETURN(const bool fits, tries(next));
    ++found.tries;
    (fits ? found.fits : found.too_large) = next;
    if (found.exact() || found.fits == most || found.too_large == 1 || !go_on()) return found;
    if (found.too_large == 0) {
      next = std::min(most, found.fits + step);
    } else if (found.fits == 0) {
      next = std::max<int64_t>(1, found.too_large - step);
    } else {
      next = found.fits + (found.too_large - found.fits) / 2;
    }
    step *= 2;
  }
}

}  // namespace tethys
