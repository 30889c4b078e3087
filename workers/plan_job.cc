#include "workers/plan_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ps/partitioner.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sharding.h"
#include "runtime/job/job.h"
#include "runtime/job/job_validation.h"
#include "runtime/nn/model.h"
#include "runtime/nn/plan.h"
#include "runtime/optim/optimizer.h"

namespace tethys {
namespace {

// The samples of the smallest part with any, when `samples` are split among `workers`, and each worker
// computes `rows` at a time.
int64_t SmallestPart(int64_t samples, int64_t workers, int64_t rows) {
  int64_t smallest = rows;
  for (const int64_t own : {samples / workers, (samples + workers - 1) / workers}) {
    if (own > 0) smallest = std::min(smallest, own % rows == 0 ? rows : own % rows);
  }
  return smallest;
}

// InvalidArgument: a layer cannot learn from the smallest batch that is normalised by itself.
absl::Status CheckBatches(const proto::Job& job, const Model& model, int64_t train_samples) {
  // Workers on leases get whole batches.
  const bool leased = LeasesBatches(job);
  const int64_t workers = leased ? 1 : std::max(job.workers(), job.strategy().local().virtual_replicas());
  const int64_t batch = leased ? BatchPerWorkerRows(job) : GlobalBatch(job);
  const int64_t rows = MicroBatchRows((batch + workers - 1) / workers, std::max(1, job.micro_batches()));
  TETHYS_RETURN_IF_ERROR(Annotate(model.CheckBatch(SmallestPart(batch, workers, rows)), "model"));
  const int64_t rest = train_samples % batch;
  if (job.drop_remainder() || rest == 0) return absl::OkStatus();
  const absl::Status short_batch = model.CheckBatch(SmallestPart(rest, workers, rows));
  if (short_batch.ok()) return short_batch;
  return absl::InvalidArgumentError(absl::StrCat("model: ", short_batch.message(), "; an epoch of ",
                                                 train_samples, " samples ends with a batch of ", rest,
                                                 ": write drop_remainder: true, or another batch"));
}

}  // namespace

absl::StatusOr<proto::JobPlan> PlanJob(const proto::Job& job) {
  proto::JobPlan plan;
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, ReadDatasetSizes(job));
  *plan.mutable_job() = job;
  TETHYS_RETURN_IF_ERROR(CheckTrainingLength(sizes.train, job));
  plan.set_job_hash(JobHash(plan.job()));
  plan.set_train_samples(sizes.train);
  plan.set_validation_samples(sizes.validation);
  plan.set_test_samples(sizes.test);
  for (const int64_t axis : sizes.sample_shape) plan.add_sample_shape(axis);
  for (const int64_t axis : sizes.labels.shape) plan.add_label_shape(axis);
  plan.set_batch_per_worker(BatchPerWorkerRows(job));
  plan.set_global_batch(GlobalBatch(job));
  TETHYS_ASSIGN_OR_RETURN(const Model model,
                          Model::Create(job.model(), sizes.sample_shape, job.data().classes()));
  TETHYS_RETURN_IF_ERROR(Annotate(model.CheckLabels(sizes.labels), "model"));
  TETHYS_RETURN_IF_ERROR(CheckBatches(job, model, sizes.train));
  AddVariables(model.variables(), plan);
  AddStatistics(model.statistics(), plan);
  for (const OptimizerSlot& slot : SlotsOf(job.optimizer())) plan.add_slot(slot.name);
  if (job.strategy().has_parameter_server()) {
    TETHYS_ASSIGN_OR_RETURN(*plan.mutable_placement(),
                            PlaceShards(model.variables(), job.strategy().parameter_server()));
  }
  TETHYS_RETURN_IF_ERROR(CheckPlanSize(plan));
  return plan;
}

}  // namespace tethys
