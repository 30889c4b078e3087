#include "runtime/chief/run_summary.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/build_id.h"
#include "runtime/chief/journal_check.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
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

void FillResult(const absl::Status& status, bool interrupted, proto::RunSummary& summary) {
  summary.set_status(status.ok() ? "succeeded" : interrupted ? "interrupted" : "failed");
  if (status.ok() || interrupted || summary.has_first_failure()) return;
  summary.mutable_first_failure()->set_role("chief");
  summary.mutable_first_failure()->set_message(std::string(status.message()));
}

proto::ProgressEvent FinishedEvent(const absl::Status& status, TaskId culprit) {
  proto::ProgressEvent event;
  proto::Finished& finished = *event.mutable_finished();
  finished.set_ok(status.ok());
  finished.set_error(std::string(status.message()));
  finished.set_status_code(static_cast<int>(status.code()));
  if (culprit.role != proto::ROLE_UNKNOWN) finished.set_culprit(TaskName(culprit.role, culprit.index));
  return event;
}

absl::Status CheckJournal(const std::string& path, const proto::JobPlan& plan, proto::RunSummary& summary,
                          std::string& note) {
  const absl::StatusOr<journal::CheckResult> result = journal::CheckFile(path);
  if (result.ok()) {
    summary.set_journal_check("passed");
    note = absl::StrCat("checked the journal: ", result->samples, " samples, each used exactly once",
                        ShardingOf(plan) == proto::Data::OFF ? " by each worker" : "");
    return absl::OkStatus();
  }
  if (absl::IsDataLoss(result.status())) {
    summary.set_journal_check("failed");
    return result.status();
  }
  summary.set_journal_check(absl::StrCat("not made: ", result.status().message()));
  note = absl::StrCat("warning: the journal was not checked: ", result.status().message());
  return absl::OkStatus();
}

}  // namespace tethys
