// Every worker holds all parameters. Gradients are summed over the workers by all-reduce, bucket after bucket
// while backward goes on, by a thread of the strategy's own, what is left in FinishStep; then every worker
// applies the same update to the same sums, so that parameters stay equal bit by bit without ever being sent.
//
// Made and called by the training thread. FinishStep blocks for the exchange; its deadline is the
// communicator's.
#ifndef TETHYS_COLLECTIVES_MIRRORED_STRATEGY_H_
#define TETHYS_COLLECTIVES_MIRRORED_STRATEGY_H_

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "proto/job.pb.h"
#include "runtime/base/clock.h"
#include "runtime/optim/optimizer.h"
#include "runtime/strategy.h"

namespace tethys {

struct MirroredOptions {
  proto::Optimizer optimizer;          // What the Optimizer was made from.
  int64_t total_samples = 0;           // Of the whole job, for the schedule.
  int64_t bucket_bytes = 1024 * 1024;  // A bucket closes once it holds so many.
  std::string exchange;                // What the communicator is, for people.
  // Gradients may lie in the communicator's own memory. The same on every rank; false where some are staged,
  // who need memory of their device's.
  bool in_memory_of_communicator = true;
};

// `optimizer` covers all variables of the arena; null: the sums stay in the gradient arena, and who asked for
// them updates. The learning rate of an update is LearningRate(options.optimizer, schedule position,
// total_samples, world size). Arenas and slots are host memory. `stream` and `clock` outlive the strategy.
// InvalidArgument: bucket_bytes < 1.
absl::StatusOr<std::unique_ptr<Strategy>> CreateMirroredStrategy(std::unique_ptr<Communicator> communicator,
                                                                 std::unique_ptr<Optimizer> optimizer,
                                                                 MirroredOptions options, Stream& stream,
                                                                 const Clock& clock);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_MIRRORED_STRATEGY_H_
