// Sums of loss and correct predictions over the samples of an epoch or an evaluation.
#ifndef TETHYS_RUNTIME_CHIEF_QUALITY_SUMS_H_
#define TETHYS_RUNTIME_CHIEF_QUALITY_SUMS_H_

#include <cstdint>

#include "proto/summary.pb.h"

namespace tethys {

struct QualitySums {
  double loss = 0;
  int64_t correct = 0;
  int64_t samples = 0;

  // Adds a worker's share: a step's record or its part of an evaluation.
  template <typename Share>
  void Add(const Share& share) {
    loss += share.loss_sum();
    correct += share.correct();
    samples += share.samples();
  }

  // Means over the samples; zero if there are none.
  proto::Quality Quality() const {
    proto::Quality quality;
    quality.set_samples(samples);
    if (samples == 0) return quality;
    quality.set_loss(loss / static_cast<double>(samples));
    quality.set_accuracy(static_cast<double>(correct) / static_cast<double>(samples));
    return quality;
  }
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_QUALITY_SUMS_H_
