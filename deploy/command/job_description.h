// A job in words: what `tethys train` prints before it starts, and what `tethys plan` prints. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_COMMAND_JOB_DESCRIPTION_H_
#define TETHYS_DEPLOY_COMMAND_JOB_DESCRIPTION_H_

#include <string>
#include <vector>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Strategy, batch, devices where there are GPUs, learning rate as scaled, gradient scale, sizes of the data,
// placement: a line each, and one for each remark (job_remarks.h).
std::string JobSummary(const proto::JobPlan& plan);

// The processes of a job that runs on this machine, in a line.
std::string ProcessesHere(const proto::JobPlan& plan);

// The same as JobSummary, `places` (what runs where, lines of text), and: which range of which variable lies
// on which server; memory of each process; bytes each sends and receives per step. Sizes are computed from
// the plan: live buffers, without the program itself.
// `worker_hosts`: a number for each worker, equal where they share a host; empty: all do.
absl::StatusOr<std::string> PlanReport(const proto::JobPlan& plan, const std::string& places,
                                       const std::vector<int>& worker_hosts = {});

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_JOB_DESCRIPTION_H_
