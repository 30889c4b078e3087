// The batches of --batches: "1-70", "1-70:4" (every fourth), "8,16,32", or several of these. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_SWEEP_BATCH_RANGE_H_
#define TETHYS_DEPLOY_SWEEP_BATCH_RANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

constexpr int64_t kMostBatches = 4096;  // The most batches of one sweep.

// Parses the batches; ascending, without repetition. InvalidArgument: a range is empty or reversed, a number
// is no whole number in [1, 2^31], or there are more than kMostBatches.
absl::StatusOr<std::vector<int64_t>> ParseBatches(absl::string_view text);

// The batches as text: "1 to 70", "1 to 69 by 4", "8, 16, 32".
std::string BatchesText(const std::vector<int64_t>& batches);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_BATCH_RANGE_H_
