// The simplest strategy: one worker, no exchange. EnqueueEnd enqueues the update, on the arenas given to
// Prepare; AwaitEnd blocks until the device has made it.
#ifndef TETHYS_RUNTIME_LOCAL_STRATEGY_H_
#define TETHYS_RUNTIME_LOCAL_STRATEGY_H_

#include <memory>

#include "runtime/base/clock.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"

namespace tethys {

// `update` covers all variables of the arena. An enqueued step may take `step_timeout`, after which AwaitEnd
// returns DeadlineExceeded. `clock` outlives the strategy.
std::unique_ptr<Strategy> CreateLocalStrategy(ReplicaUpdate update, const Clock& clock,
                                              Nanoseconds step_timeout = 30 * kSecond);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_LOCAL_STRATEGY_H_
