// Runs a plan over samples with the current parameters: for loss and accuracy, or for the outputs.
#ifndef TETHYS_WORKERS_EVALUATOR_H_
#define TETHYS_WORKERS_EVALUATOR_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
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

// The outputs of samples [first, first + logits.size() / classes), row by row.
using UseOutputs = absl::FunctionRef<absl::Status(int64_t first, absl::Span<const float> logits)>;

// Calls `use` with the outputs of samples [slice.begin, slice.end), batch by batch in natural order.
// `classes` is the number of outputs of a sample. Returns the first error of `use`.
absl::Status Predict(Device& device, Plan& plan, std::shared_ptr<const Dataset> dataset, Slice slice,
                     int64_t classes, UseOutputs use);

}  // namespace tethys

#endif  // TETHYS_WORKERS_EVALUATOR_H_
