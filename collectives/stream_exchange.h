// Finds out whether the devices of a mirrored group can make the exchange themselves (NCCL), and forms the
// group that does.
#ifndef TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_
#define TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/device/device.h"

namespace tethys {

struct StreamExchange {
  std::unique_ptr<StreamCommunicator> communicator;  // Null if the devices cannot.
  std::string reason;                                // Why, for logs and reports.
};

// A collective over `all`: every rank calls it with its device, which may be the CPU. The devices can
// exchange if each rank has one that supports it and no two ranks share one. Blocks until all have joined.
// Errors name the rank that failed; Unavailable on the others.
absl::StatusOr<StreamExchange> CreateStreamExchange(Communicator& all, Device& device, Nanoseconds timeout,
                                                    const Clock& clock);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_
