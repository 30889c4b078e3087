#include "workers/evaluator.h"

#include <algorithm>

#include "workers/batch_feed.h"

namespace tethys {

absl::StatusOr<EvaluationSums> Evaluate(Device& device, Plan& plan, std::shared_ptr<const Dataset> dataset,
                                        Slice slice) {
  EvaluationSums sums;
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<BatchFeed> feed,
                          BatchFeed::Create(device, plan, std::move(dataset), {}));
  int64_t announced = slice.begin;
  for (int64_t begin = slice.begin; begin < slice.end; begin += plan.rows()) {
    while (feed->loader().room() > 0 && announced < slice.end) {
      const int64_t end = std::min(announced + plan.rows(), slice.end);
      feed->loader().Announce(nullptr, {announced, end});
      announced = end;
    }
    TETHYS_RETURN_IF_ERROR(feed->Feed());
    TETHYS_RETURN_IF_ERROR(plan.TakeBatch());
    TETHYS_RETURN_IF_ERROR(plan.Forward());
    TETHYS_RETURN_IF_ERROR(feed->FeedAhead());
    TETHYS_ASSIGN_OR_RETURN(const LossResult loss, plan.Loss());
    sums.loss_sum += loss.loss_sum;
    sums.correct += static_cast<int64_t>(loss.correct);
  }
  sums.samples = slice.count();
  return sums;
}

}  // namespace tethys
