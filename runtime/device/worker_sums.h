// Sums over the workers of a job in the middle of a step, for layers that need the whole batch (batch
// normalisation). Strategies offer them, primitives use them.
#ifndef TETHYS_RUNTIME_DEVICE_WORKER_SUMS_H_
#define TETHYS_RUNTIME_DEVICE_WORKER_SUMS_H_

#include <cstdint>

#include "runtime/base/status.h"

namespace tethys {

class Stream;

// Used by the device's thread.
class WorkerSums {
 public:
  virtual ~WorkerSums() = default;

  // data[0 .. count), device memory, becomes the sum over all workers, the same bits on each: behind the work
  // that `stream` has, before the work that it is given later. Every worker sums the same counts in the same
  // order. Blocks if the host exchanges, and then has the errors of Strategy::EnqueueEnd. A graph may capture
  // it otherwise.
  virtual absl::Status Sum(Stream& stream, float* data, int64_t count) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_WORKER_SUMS_H_
