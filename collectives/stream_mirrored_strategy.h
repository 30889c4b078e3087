// Mirrored training whose exchange is work on streams: gradients are summed bucket after bucket on a stream
// beside backward's, ordered by events, and every replica applies the same update on its device. No thread,
// no copy through the host; the same promises as MirroredStrategy (mirrored_strategy.h).
//
// Made and called by the training thread. FinishStep watches the streams under its deadline.
#ifndef TETHYS_COLLECTIVES_STREAM_MIRRORED_STRATEGY_H_
#define TETHYS_COLLECTIVES_STREAM_MIRRORED_STRATEGY_H_

#include <memory>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/device/stream_communicator.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"

namespace tethys {

struct StreamMirroredOptions {
  int64_t bucket_bytes = 25 << 20;  // A bucket closes once it holds so many, as they travel.
  int64_t first_bucket_bytes =
      1 << 20;               // The first closes at the smaller of the two: it begins the exchange.
  bool in_bfloat16 = false;  // What travels and is summed; the update takes float32.
  Nanoseconds step_timeout = 30 * kSecond;  // Without a bucket done for so long, a step has failed.
  const Clock* clock = nullptr;             // Outlives the strategy.
  std::string reason = {};                  // Why the exchange is the devices', for people.
};

// `device` and `stream`, on which plan and update work, outlive the strategy. InvalidArgument: bucket_bytes
// < 1.
absl::StatusOr<std::unique_ptr<Strategy>> CreateStreamMirroredStrategy(
    std::unique_ptr<StreamCommunicator> communicator, ReplicaUpdate update, Device& device, Stream& stream,
    StreamMirroredOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_STREAM_MIRRORED_STRATEGY_H_
