// Collects the moving statistics of batch normalisation. Every worker keeps its own statistics and reports
// them at the end of each run; the chief averages them for evaluations and checkpoints. Nothing flows back
// into training, so neither evaluations nor checkpoints change a job's results. Pure; thread-compatible.
//
// Moving statistics are linear in the batches' statistics. In lock step, every worker weights its batch by
// its share of the step's samples. The mean over workers then equals the moving statistics of the whole
// batches.
#ifndef TETHYS_RUNTIME_CHIEF_STATISTICS_BOOK_H_
#define TETHYS_RUNTIME_CHIEF_STATISTICS_BOOK_H_

#include <cstdint>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/moving_statistics.h"

namespace tethys {

class StatisticsBook {
 public:
  // `start`: the statistics of a checkpoint, or the initial values of the model's statistics as the mean. If
  // the mean is empty, the model has no moving statistics, and the book does nothing.
  StatisticsBook(int workers, MovingStatistics start);

  // Returns the statistics with which a worker begins: its own, if the checkpoint was saved with the same
  // number of workers, otherwise the mean. A replacement of a lost worker begins with the mean that the last
  // Average computed.
  const std::vector<float>& StartOf(int worker) const;

  // Notes a worker's statistics and steps. InvalidArgument: the number of elements is wrong, or a value is
  // not finite; then nothing is noted.
  absl::Status OnRunDone(int worker, const proto::RunDone& done);
  void OnLost(int worker);

  // Computes the mean over the workers whose statistics are known. In lock step (`equally`), these workers
  // have equal weights. A replacement began with a mean that may be old, so the first Average after its
  // statistics have arrived leaves these statistics out, unless no statistics of other workers are known. If
  // not `equally`, workers are weighted by their steps, because an asynchronous worker with few steps has
  // learnt little. If no worker has made a step, the mean does not change.
  void Average(bool equally = false);

  // The statistics that the last Average computed.
  const MovingStatistics& current() const { return current_; }

  void Save(proto::StatisticsState& state) const;
  // InvalidArgument: arenas have different sizes, values are not finite, or the number of workers is wrong.
  absl::Status Restore(const proto::StatisticsState& state);

 private:
  struct Worker {
    std::vector<float> own;  // Empty: the worker's own statistics are not known.
    int64_t steps = 0;
    bool replaced = false;  // The worker's process was replaced since the last Average.
  };

  // The most steps that are counted for a worker: so few that no sum of steps overflows.
  static constexpr int64_t kMostSteps = int64_t{1} << 40;
  bool Tracks() const { return !current_.mean.empty(); }

  MovingStatistics current_;
  std::vector<Worker> workers_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_STATISTICS_BOOK_H_
