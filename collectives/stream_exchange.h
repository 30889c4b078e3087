// Finds out whether the devices of a mirrored group can exchange gradients directly (by NCCL). If so, forms
// the group of devices.
#ifndef TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_
#define TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_

#include <functional>
#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/device/device.h"

namespace tethys {

struct StreamExchange {
  std::unique_ptr<StreamCommunicator> communicator;  // Null if the devices cannot exchange.
  std::string reason;  // Why the devices can or cannot exchange, for logs and reports.
};

struct StreamExchangeOptions {
  // The fields of the same names of StreamGroup.
  Nanoseconds timeout = 60 * kSecond;
  Nanoseconds abort_timeout = 10 * kSecond;
  const Clock* clock = nullptr;  // Must outlive the communicator.
  std::function<absl::Status()> interrupted = nullptr;
  // Not empty: the devices do not exchange, even if they can, for this reason. The same on every rank.
  std::string obstacle = {};
};

// A collective over `all`: every rank calls it with its device, which may be the CPU. The devices can
// exchange if each rank's device supports an all-reduce and no two ranks share a device. Blocks until all
// ranks have joined. The error names the rank that failed; other ranks return Unavailable.
absl::StatusOr<StreamExchange> CreateStreamExchange(Communicator& all, Device& device,
                                                    const StreamExchangeOptions& options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_
