// The moving statistics of a job's model, as the chief keeps them and checkpoints hold them. Plain data.
#ifndef TETHYS_RUNTIME_CHECKPOINT_MOVING_STATISTICS_H_
#define TETHYS_RUNTIME_CHECKPOINT_MOVING_STATISTICS_H_

#include <vector>

namespace tethys {

// Each vector is an arena of statistics. Empty: the model has none.
struct MovingStatistics {
  std::vector<float> mean = {};  // Over the workers: what evaluations use.
  // Each worker's own; empty unless all are known. With them a resumed job goes on as if it had not stopped.
  std::vector<std::vector<float>> workers = {};
  bool operator==(const MovingStatistics&) const = default;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_MOVING_STATISTICS_H_
