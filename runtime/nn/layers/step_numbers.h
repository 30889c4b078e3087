// The numbers that differ from step to step, and from micro-batch to micro-batch, and that layers need on the
// device. Plain data.
#ifndef TETHYS_RUNTIME_NN_LAYERS_STEP_NUMBERS_H_
#define TETHYS_RUNTIME_NN_LAYERS_STEP_NUMBERS_H_

#include <cstdint>

namespace tethys {

struct StepNumbers {
  // The index of the first sample in the sample order of the job; see StepInfo::sample_begin.
  uint64_t first_sample = 0;
  // The micro-batch's share of the step's samples, times the number of workers: the mean of the workers'
  // moving statistics is then the statistic of the whole batch.
  float statistics_share = 1;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_STEP_NUMBERS_H_
