#include "runtime/chief/run_summary.h"

#include "runtime/base/build_id.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

proto::RunSummary SummaryOfPlan(const proto::JobPlan& plan) {
  const proto::Job& job = plan.job();
  proto::RunSummary summary;
  summary.set_job(job.name());
  summary.set_strategy(StrategyName(job));
  summary.set_workers(job.workers());
  summary.set_servers(plan.placement().servers());
  summary.set_global_batch(plan.global_batch());
  if (const auto scale = GradientScale(job.strategy().parameter_server()); scale.has_value()) {
    summary.set_gradient_scale(proto::Asynchronous::GradientScale_Name(*scale));
  }
  summary.set_seed(job.seed());
  summary.set_build_id(BuildId());
  summary.set_job_hash(plan.job_hash());
  return summary;
}

}  // namespace tethys
