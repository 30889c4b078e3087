#include "workers/evaluator.h"

#include <algorithm>

#include "runtime/data/loader.h"

namespace tethys {

absl::StatusOr<EvaluationSums> Evaluate(Plan& plan, std::shared_ptr<const Dataset> dataset, Slice slice) {
  EvaluationSums sums;
  BatchLoader loader(std::move(dataset), {.rows = plan.rows()});
  for (int64_t begin = slice.begin; begin < slice.end; begin += plan.rows()) {
    loader.Announce(nullptr, {begin, std::min(begin + plan.rows(), slice.end)});
    TETHYS_RETURN_IF_ERROR(plan.Forward(loader.Next()));
    TETHYS_ASSIGN_OR_RETURN(const LossResult loss, plan.Loss());
    sums.loss_sum += loss.loss_sum;
    sums.correct += static_cast<int64_t>(loss.correct);
  }
  sums.samples = slice.count();
  return sums;
}

}  // namespace tethys
