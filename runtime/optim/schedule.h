// The learning rate as a function of the number of samples used, so that a schedule means the same under
// every strategy and batch size. The comments of Schedule in job.proto give the formulas. Pure; any thread.
#ifndef TETHYS_RUNTIME_OPTIM_SCHEDULE_H_
#define TETHYS_RUNTIME_OPTIM_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"

namespace tethys {

class LearningRateSchedule {
 public:
  // Lengths in samples over all workers. `job` is 0 if the job has no fixed length; a decay whose length is
  // not configured then never begins.
  struct Lengths {
    int64_t epoch = 0;
    int64_t job = 0;
  };
  // If the config asks for linear scaling, every rate is multiplied by `workers`, including the rate at the
  // end of a decay.
  LearningRateSchedule(const proto::Optimizer& config, Lengths lengths, int workers = 1);

  // The rate of the update that begins after `samples_used` samples.
  double At(int64_t samples_used) const;

  // Samples over which the rate decays; 0 for a step decay or without a decay.
  int64_t decay_samples() const { return decay_samples_; }
  // The numbers of used samples at which a step decay multiplies the rate by its factor.
  const std::vector<int64_t>& steps() const { return steps_; }
  // Samples of the warm-up; 0 without a warm-up.
  int64_t warm_up_samples() const { return warm_up_samples_; }

 private:
  double DecayedRate(int64_t samples_used) const;
  double WarmUpFactor(int64_t samples_used) const;

  proto::Schedule schedule_;
  double start_;  // The rate at the beginning, without linear scaling.
  double scale_;
  int64_t decay_samples_ = 0;
  int64_t warm_up_samples_ = 0;
  std::vector<int64_t> steps_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_OPTIM_SCHEDULE_H_
