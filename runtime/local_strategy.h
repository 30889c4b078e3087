// The simplest strategy: one worker, no exchange. EnqueueEnd enqueues the update of the arenas given to
// Prepare; AwaitEnd blocks until the device has applied the update.
#ifndef TETHYS_RUNTIME_LOCAL_STRATEGY_H_
#define TETHYS_RUNTIME_LOCAL_STRATEGY_H_

#include <memory>

#include "runtime/base/clock.h"
#include "runtime/replica_update.h"
#include "runtime/strategy.h"

namespace tethys {

// `update` must cover all variables of the arena. AwaitEnd returns DeadlineExceeded if a step takes longer
// than `step_timeout`. `clock` must outlive the strategy.
std::unique_ptr<Strategy> CreateLocalStrategy(ReplicaUpdate update, const Clock& clock,
                                              Nanoseconds step_timeout = 30 * kSecond);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_LOCAL_STRATEGY_H_
