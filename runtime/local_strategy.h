// The simplest strategy: one worker, no exchange. The whole update happens in FinishStep, on the arenas given
// to Prepare. Called by the training thread only; blocks for the time of the update.
#ifndef TETHYS_RUNTIME_LOCAL_STRATEGY_H_
#define TETHYS_RUNTIME_LOCAL_STRATEGY_H_

#include <memory>

#include "proto/job.pb.h"
#include "runtime/base/clock.h"
#include "runtime/optim/optimizer.h"
#include "runtime/strategy.h"

namespace tethys {

// `optimizer` was made from `config` for all variables of the arena. The learning rate of an update is
// LearningRate(config, schedule position, total_samples, workers). `step_timeout`: how long a step that was
// put on the stream may take. `stream` and `clock` outlive the strategy.
std::unique_ptr<Strategy> CreateLocalStrategy(std::unique_ptr<Optimizer> optimizer,
                                              const proto::Optimizer& config, int64_t total_samples,
                                              int workers, Stream& stream, const Clock& clock,
                                              Nanoseconds step_timeout = 30 * kSecond);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_LOCAL_STRATEGY_H_
