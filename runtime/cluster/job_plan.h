// Reading a JobPlan: what every process derives from it. Pure; any thread.
#ifndef TETHYS_RUNTIME_CLUSTER_JOB_PLAN_H_
#define TETHYS_RUNTIME_CLUSTER_JOB_PLAN_H_

#include <string>

#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// A serialized plan is no larger. It is part of one message to every task, and nearly all of it is shards.
constexpr int64_t kMaxPlanBytes = int64_t{32} << 20;
// The largest order that a task takes from its chief: a plan, the members of the job, and room. gRPC's own
// default is 4 MiB.
constexpr int64_t kMaxOrderBytes = kMaxPlanBytes + (int64_t{4} << 20);
// InvalidArgument: larger than kMaxPlanBytes.
absl::Status CheckPlanSize(const proto::JobPlan& plan);

void AddVariables(const VariableSet& variables, proto::JobPlan& plan);

// InvalidArgument when the variables contradict the plan's signature or the arena's rules.
absl::StatusOr<VariableSet> VariablesOf(const proto::JobPlan& plan);

// Samples of one update: the global batch, or a worker's batch where each push is an update.
int64_t SamplesPerUpdate(const proto::JobPlan& plan);

// Samples used before `position` of an epoch's order, which schedules are functions of; those that
// drop_remainder leaves out are not used.
int64_t SamplesUsed(const proto::JobPlan& plan, int64_t epoch, int64_t position);

// Samples of the whole job, as many as epochs and max_steps let it use: what a linear decay without a length
// of its own spans, also after the job was resumed with another length.
int64_t TotalSamples(const proto::JobPlan& plan);

// Those that get pushes, the first so many. A job with more servers than shards leaves the last ones empty:
// placement fills the servers of lowest index first.
int ServersWithShards(const proto::Placement& placement);

// What the worker computes on: as its host says, else as the job does.
proto::Device::Kind DeviceOf(const proto::JobPlan& plan, int worker);
bool AnyOnGpu(const proto::JobPlan& plan);

// "worker 2", "ps 0", "chief".
std::string TaskName(proto::Role role, int index);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_JOB_PLAN_H_
