#include <algorithm>

#include "runtime/optim/optimizer.h"

namespace tethys {

double LearningRate(const proto::Optimizer& config, int64_t samples_used, int64_t total_samples,
                    int workers) {
  const double scale = config.scale_with_workers() ? workers : 1;
  const double start = config.learning_rate();
  if (!config.schedule().has_linear_decay()) return scale * start;
  const proto::LinearDecay& decay = config.schedule().linear_decay();
  const int64_t length = decay.samples() > 0 ? decay.samples() : total_samples;
  if (length <= 0) return scale * start;
  const double progress =
      std::clamp(static_cast<double>(samples_used) / static_cast<double>(length), 0.0, 1.0);
  return scale * (start + (decay.end_learning_rate() - start) * progress);
}

}  // namespace tethys
