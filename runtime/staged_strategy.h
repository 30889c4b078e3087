// Lets a device whose memory the host cannot use (a GPU) train with an inner strategy that exchanges data in
// host memory. Gradients are copied to the host range by range as backward computes them, on a separate
// stream, so that the exchange overlaps with backward. EnqueueEnd copies the result of the exchange to the
// device. The inner strategy does everything else.
//
// Called by the training thread only, which also owns the device.
#ifndef TETHYS_RUNTIME_STAGED_STRATEGY_H_
#define TETHYS_RUNTIME_STAGED_STRATEGY_H_

#include <memory>

#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"

namespace tethys {

struct StagingOptions {
  // How long EnqueueEnd waits for gradients to reach the host, and AwaitEnd for the device.
  Nanoseconds step_timeout = 30 * kSecond;
  const Clock* clock = nullptr;  // Must outlive the strategy.
};

// Without `update`, `inner` delivers new parameters, which are copied to the device (parameter servers). With
// `update`, `inner` only sums gradients; the sums are copied to the device, which applies `update`
// (mirrored). `device` and `stream` must outlive the strategy. In addition to the errors of `inner`,
// EnqueueEnd and AwaitEnd return DeadlineExceeded if the device does not finish backward or the update.
absl::StatusOr<std::unique_ptr<Strategy>> CreateStagedStrategy(std::unique_ptr<Strategy> inner,
                                                               absl::optional<ReplicaUpdate> update,
                                                               Device& device, Stream& stream,
                                                               StagingOptions options);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_STAGED_STRATEGY_H_
