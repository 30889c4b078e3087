// Whether the ranks of a mirrored group can leave the exchange to their devices (NCCL), and the group that
// does it.
#ifndef TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_
#define TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/device/device.h"

namespace tethys {

struct StreamExchange {
  std::unique_ptr<StreamCommunicator> communicator;  // Null where the devices cannot.
  std::string reason;                                // Why it is so, for people.
};

// A collective of its own over `all`, which every rank calls with its device, the CPU too: the devices can
// when each rank has one that knows how and no two ranks share one. Blocks until all have joined. Errors name
// the rank that could not; Unavailable on the others.
absl::StatusOr<StreamExchange> CreateStreamExchange(Communicator& all, Device& device, Nanoseconds timeout,
                                                    const Clock& clock);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_STREAM_EXCHANGE_H_
