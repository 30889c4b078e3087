// Computes loss and accuracy over samples, with the current parameters.
#ifndef TETHYS_WORKERS_EVALUATOR_H_
#define TETHYS_WORKERS_EVALUATOR_H_

#include <memory>

#include "runtime/data/dataset.h"
#include "runtime/data/sharding.h"
#include "runtime/nn/plan.h"

namespace tethys {

// Sums over samples, not means, so that the results of several slices can be added.
struct EvaluationSums {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t samples = 0;
};

// Evaluates samples [slice.begin, slice.end) in natural order, in batches of plan.rows(). `plan` was compiled
// for `device`.
absl::StatusOr<EvaluationSums> Evaluate(Device& device, Plan& plan, std::shared_ptr<const Dataset> dataset,
                                        Slice slice);

}  // namespace tethys

#endif  // TETHYS_WORKERS_EVALUATOR_H_
