#include "workers/evaluator.h"

#include <algorithm>
#include <vector>

#include "workers/batch_feed.h"

namespace tethys {
namespace {

// Runs Forward for samples [slice.begin, slice.end) of `feed`, batch by batch; after each batch, calls `use`
// with the samples of the batch.
absl::Status FeedBatches(BatchFeed& feed, Plan& plan, Slice slice,
                         absl::FunctionRef<absl::Status(Slice batch)> use) {
  int64_t announced = slice.begin;
  for (int64_t begin = slice.begin; begin < slice.end; begin += plan.rows()) {
    while (feed.loader().room() > 0 && announced < slice.end) {
      const int64_t end = std::min(announced + plan.rows(), slice.end);
      feed.loader().Announce(nullptr, {announced, end});
      announced = end;
    }
    TETHYS_RETURN_IF_ERROR(feed.Feed());
    TETHYS_RETURN_IF_ERROR(plan.TakeBatch());
    TETHYS_RETURN_IF_ERROR(plan.Forward());
    TETHYS_RETURN_IF_ERROR(feed.FeedAhead());
    TETHYS_RETURN_IF_ERROR(use({begin, std::min(begin + plan.rows(), slice.end)}));
  }
  return absl::OkStatus();
}

// Does the work of FeedBatches with a feed of its own. After an error, the plan has no batch of the feed
// left.
absl::Status ForEachBatch(Device& device, Plan& plan, std::shared_ptr<const Dataset> dataset, Slice slice,
                          absl::FunctionRef<absl::Status(Slice batch)> use) {
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<BatchFeed> feed,
                          BatchFeed::Create(device, plan, std::move(dataset), {}));
  const absl::Status fed = FeedBatches(*feed, plan, slice, use);
  if (!fed.ok()) plan.DropBatches().IgnoreError();
  return fed;
}

// Like Evaluate, but after each batch calls `use` with the samples of that batch.
absl::StatusOr<proto::EvaluationDone> SumBatches(Device& device, Plan& plan,
                                                 std::shared_ptr<const Dataset> dataset, Slice slice,
                                                 absl::FunctionRef<absl::Status(Slice batch)> use) {
  LossResult sums;
  const auto add_loss = [&](Slice batch) -> absl::Status {
    TETHYS_ASSIGN_OR_RETURN(const LossResult loss, plan.Loss());
    sums.loss_sum += loss.loss_sum;
    sums.correct += loss.correct;
    sums.labels += loss.labels;
    sums.correct_top5 += loss.correct_top5;
    return use(batch);
  };
  if (const absl::Status ended = ForEachBatch(device, plan, std::move(dataset), slice, add_loss);
      !ended.ok()) {
    plan.TakeConfusion().IgnoreError();  // The next evaluation begins with an empty matrix.
    return ended;
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<int64_t> confusion, plan.TakeConfusion());
  proto::EvaluationDone done;
  done.set_samples(slice.count());
  done.set_loss_sum(sums.loss_sum);
  done.set_correct(static_cast<int64_t>(sums.correct));
  done.set_labels(static_cast<int64_t>(sums.labels));
  done.set_correct_top5(static_cast<int64_t>(sums.correct_top5));
  done.mutable_confusion()->Assign(confusion.begin(), confusion.end());
  return done;
}

// Hands the outputs of each batch to `use`.
class OutputReader {
 public:
  OutputReader(Plan& plan, int64_t each, UseOutputs use)
      : plan_(plan), each_(each), use_(use), outputs_(plan.rows() * each) {}
  absl::Status Read(Slice batch) {
    TETHYS_RETURN_IF_ERROR(plan_.ReadOutputs(outputs_.data()));
    return use_(batch.begin, absl::MakeConstSpan(outputs_.data(), batch.count() * each_));
  }

 private:
  Plan& plan_;
  const int64_t each_;
  const UseOutputs use_;
  std::vector<float> outputs_;
};

}  // namespace

absl::StatusOr<proto::EvaluationDone> Evaluate(Device& device, Plan& plan,
                                               std::shared_ptr<const Dataset> dataset, Slice slice,
                                               absl::FunctionRef<absl::Status()> go_on) {
  return SumBatches(device, plan, std::move(dataset), slice, [&](Slice) { return go_on(); });
}

absl::StatusOr<proto::EvaluationDone> EvaluateOutputs(Device& device, Plan& plan,
                                                      std::shared_ptr<const Dataset> dataset, Slice slice,
                                                      int64_t each, UseOutputs use) {
  OutputReader reader(plan, each, use);
  return SumBatches(device, plan, std::move(dataset), slice, [&](Slice batch) { return reader.Read(batch); });
}

absl::Status Predict(Device& device, Plan& plan, std::shared_ptr<const Dataset> dataset, Slice slice,
                     int64_t each, UseOutputs use) {
  OutputReader reader(plan, each, use);
  return ForEachBatch(device, plan, std::move(dataset), slice,
                      [&](Slice batch) { return reader.Read(batch); });
}

}  // namespace tethys
