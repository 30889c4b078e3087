// Mirrored training whose exchange is stream work. Gradients are summed bucket by bucket on a second stream,
// which runs beside the stream of backward; events order the two streams. Then every replica applies the same
// update on its device. The strategy uses no thread of its own and copies no gradients through host memory.
// As in mirrored_strategy.h, parameters stay bit-equal on all workers.
//
// Created and called by the training thread. AwaitEnd polls the device until the step has ended or
// `step_timeout` has passed. A worker leaves its group by Halt and, once every other worker of the group has
// halted or is lost, by EndWork.
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
  // A bucket closes once it holds this many bytes, counted in the format that is sent.
  int64_t bucket_bytes = 25 << 20;
  // Limit for the first bucket, if smaller than bucket_bytes. A small first bucket starts the exchange early.
  int64_t first_bucket_bytes = 1 << 20;
  bool in_bfloat16 = false;                 // Send and sum in bfloat16; the update still takes float32.
  bool sums_for_layers = false;             // True if layers need Strategy::worker_sums.
  Nanoseconds step_timeout = 30 * kSecond;  // A step that takes longer has failed.
  const Clock* clock = nullptr;             // Must outlive the strategy.
  std::string reason = {};                  // Why the devices exchange gradients, for logs and reports.
};

// `stream` is the stream on which forward, backward and the update of a step run. `device` and `stream` must
// outlive the strategy. InvalidArgument: bucket_bytes < 1.
absl::StatusOr<std::unique_ptr<Strategy>> CreateStreamMirroredStrategy(
    std::unique_ptr<StreamCommunicator> communicator, ReplicaUpdate update, Device& device, Stream& stream,
    StreamMirroredOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_STREAM_MIRRORED_STRATEGY_H_
