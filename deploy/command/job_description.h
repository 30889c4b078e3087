// Descriptions of a job, which `tethys train` prints before it starts, and `tethys plan`. Pure; any thread.
#ifndef TETHYS_DEPLOY_COMMAND_JOB_DESCRIPTION_H_
#define TETHYS_DEPLOY_COMMAND_JOB_DESCRIPTION_H_

#include <string>
#include <vector>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// A line each for strategy, batch, devices if there are GPUs, learning rate as scaled, gradient scale, sizes
// of the data and placement, and for each remark (job_remarks.h).
std::string JobSummary(const proto::JobPlan& plan);

// A line with the processes of a job that runs on this machine.
std::string ProcessesHere(const proto::JobPlan& plan);

// JobSummary, then `places` (lines of text on which process runs where), then the ranges of variables on each
// server, the memory of each process, and the bytes that each sends and receives per step. Sizes are computed
// from the plan: live buffers, without the program itself. `worker_hosts` has a number for each worker, equal
// for workers on one host; if it is empty, all workers are on one host.
absl::StatusOr<std::string> PlanReport(const proto::JobPlan& plan, const std::string& places,
                                       const std::vector<int>& worker_hosts = {});

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_JOB_DESCRIPTION_H_
