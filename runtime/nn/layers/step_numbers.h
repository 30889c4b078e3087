// The numbers that differ from step to step, and from micro-batch to micro-batch, and that layers need on the
// device. Plain data.
#ifndef TETHYS_RUNTIME_NN_LAYERS_STEP_NUMBERS_H_
#define TETHYS_RUNTIME_NN_LAYERS_STEP_NUMBERS_H_

#include <cstdint>

namespace tethys {

struct StepNumbers {
  // The index, in the sample order of the job, of the micro-batch's first sample (StepInfo::sample_begin).
  uint64_t first_sample = 0;
  // The micro-batch's share of the samples that all workers use in the step, times the number of workers.
  // With this factor, the mean of the workers' moving statistics is the moving statistic of the whole batch.
  float statistics_share = 1;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_STEP_NUMBERS_H_
