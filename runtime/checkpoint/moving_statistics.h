// The moving statistics (of batch normalisation) of a job's model, as the chief keeps them and checkpoints
// hold them. Plain data.
#ifndef TETHYS_RUNTIME_CHECKPOINT_MOVING_STATISTICS_H_
#define TETHYS_RUNTIME_CHECKPOINT_MOVING_STATISTICS_H_

#include <vector>

namespace tethys {

// Each vector of floats holds all statistics of the model, one after another. If the vectors are empty, the
// model has no statistics.
struct MovingStatistics {
  std::vector<float> mean = {};  // The mean over the workers. Evaluations use this mean.
  // The statistics of each worker; empty unless the statistics of all workers are known. A job that resumes
  // with the statistics of each worker continues exactly as if it had not stopped.
  std::vector<std::vector<float>> workers = {};
  bool operator==(const MovingStatistics&) const = default;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_MOVING_STATISTICS_H_
