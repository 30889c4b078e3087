// Descriptions of a job, printed by `tethys train` before training and by `tethys plan`. Pure; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_JOB_DESCRIPTION_H_
#define TETHYS_DEPLOY_DESCRIBE_JOB_DESCRIPTION_H_

#include <string>
#include <vector>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The column at which the values begin in the lines "  NAME   VALUE" of a job and its prediction, and the
// width of these lines.
inline constexpr int kSummaryIndent = 17;
inline constexpr int kSummaryWidth = 100;

// A line each for strategy, model, data, length, global batch, devices (if there are GPUs), scaled learning
// rate, gradient scale, placement of the shards (if there are servers), and each remark (job_remarks.h).
// `cores`: the number of cores of the one computer that runs all processes, for a remark; 0: not known.
std::string JobSummary(const proto::JobPlan& plan, int cores = 0);

// Describes the processes of a job whose processes all run on this machine.
std::string ProcessesHere(const proto::JobPlan& plan);

// JobSummary, then `places` (lines of text on which process runs where), then the memory of each process, and
// the bytes that each process sends and receives per step. Memory is computed from the plan and covers live
// buffers, not the program itself. `worker_hosts` has a number for each worker, the same number for workers
// on the same host; if it is empty, all workers are on one host. `cores` as for JobSummary.
absl::StatusOr<std::string> PlanReport(const proto::JobPlan& plan, const std::string& places,
                                       const std::vector<int>& worker_hosts = {}, int cores = 0);

// A line for each variable, with its ranges on each server, and a line for the parameters of each server.
std::string VariablesReport(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_JOB_DESCRIPTION_H_
