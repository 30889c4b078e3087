// A strategy that exchanges host memory, for a device whose memory the host cannot use: gradients come down
// range by range as backward makes them, on a stream of their own, so that the exchange goes on while
// backward does; what the exchange gives goes up in FinishStep. Everything else is the inner strategy's.
//
// Called by the training thread only, which is the device's.
#ifndef TETHYS_RUNTIME_STAGED_STRATEGY_H_
#define TETHYS_RUNTIME_STAGED_STRATEGY_H_

#include <memory>

#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"

namespace tethys {

struct StagingOptions {
  // So long FinishStep waits for gradients to come down.
  Nanoseconds step_timeout = 30 * kSecond;
  const Clock* clock = nullptr;  // Outlives the strategy.
};

// Without `update`, `inner` makes parameters, and those go up (parameter servers). With it, `inner` only sums
// gradients, those go up, and the device applies `update` (mirrored). `device` and `stream` outlive the
// strategy. Beside the errors of `inner`, FinishStep gives DeadlineExceeded where the device does not finish
// backward.
absl::StatusOr<std::unique_ptr<Strategy>> CreateStagedStrategy(std::unique_ptr<Strategy> inner,
                                                               absl::optional<ReplicaUpdate> update,
                                                               Device& device, Stream& stream,
                                                               StagingOptions options);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_STAGED_STRATEGY_H_
