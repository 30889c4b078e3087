#include "workers/plan_job.h"

#include <algorithm>

#include "ps/partitioner.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sharding.h"
#include "runtime/job/job.h"
#include "runtime/job/job_validation.h"
#include "runtime/nn/model.h"
#include "runtime/optim/optimizer.h"

namespace tethys {

absl::StatusOr<proto::JobPlan> PlanJob(const proto::Job& job) {
  proto::JobPlan plan;
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, ReadDatasetSizes(job.data()));
  *plan.mutable_job() = job;
  TETHYS_RETURN_IF_ERROR(CheckTrainingLength(sizes.train, job));
  plan.set_job_hash(JobHash(plan.job()));
  plan.set_train_samples(sizes.train);
  plan.set_validation_samples(sizes.validation);
  plan.set_test_samples(sizes.test);
  for (const int64_t axis : sizes.sample_shape) plan.add_sample_shape(axis);
  plan.set_batch_per_worker(BatchPerWorkerRows(job));
  plan.set_global_batch(GlobalBatch(job));
  TETHYS_ASSIGN_OR_RETURN(const Model model,
                          Model::Create(job.model(), sizes.sample_shape, job.data().classes()));
  const int parts = std::max(job.workers(), job.strategy().local().virtual_replicas());
  TETHYS_RETURN_IF_ERROR(
      Annotate(model.CheckBatch(SplitSlice({0, GlobalBatch(job)}, parts - 1, parts).count()), "model"));
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
