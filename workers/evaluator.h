// Runs a plan over samples with the current parameters: for loss and accuracy, or for the outputs.
#ifndef TETHYS_WORKERS_EVALUATOR_H_
#define TETHYS_WORKERS_EVALUATOR_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "proto/chief.pb.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sharding.h"
#include "runtime/nn/plan.h"

namespace tethys {

// A function that receives the outputs of successive samples, from sample `first` on, row by row.
using UseOutputs = absl::FunctionRef<absl::Status(int64_t first, absl::Span<const float> outputs)>;

// Evaluates samples [slice.begin, slice.end) in natural order, in batches of plan.rows(). `plan` must have
// been compiled for `device`. Returns sums over samples, so that the results of several slices can be added.
// The result has no id yet. `go_on` is called after each batch; its error ends the evaluation.
absl::StatusOr<proto::EvaluationDone> Evaluate(
    Device& device, Plan& plan, std::shared_ptr<const Dataset> dataset, Slice slice,
    absl::FunctionRef<absl::Status()> go_on = [] { return absl::OkStatus(); });
// Does the work of Evaluate and Predict in one pass.
absl::StatusOr<proto::EvaluationDone> EvaluateOutputs(Device& device, Plan& plan,
                                                      std::shared_ptr<const Dataset> dataset, Slice slice,
                                                      int64_t each, UseOutputs use);

// Calls `use` with the outputs of samples [slice.begin, slice.end), batch by batch in natural order.
// `each` is the number of outputs of a sample. Returns the first error of `use`.
absl::Status Predict(Device& device, Plan& plan, std::shared_ptr<const Dataset> dataset, Slice slice,
                     int64_t each, UseOutputs use);

}  // namespace tethys

#endif  // TETHYS_WORKERS_EVALUATOR_H_
