// Values that every process derives from a JobPlan. Pure; any thread.
#ifndef TETHYS_RUNTIME_CLUSTER_JOB_PLAN_H_
#define TETHYS_RUNTIME_CLUSTER_JOB_PLAN_H_

#include <string>

#include "proto/member.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/status.h"
#include "runtime/optim/schedule.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The limit on a serialized plan. Every task receives the plan in one message. Shards make up nearly all of
// the plan.
constexpr int64_t kMaxPlanBytes = int64_t{32} << 20;
// The largest order that a task accepts from its chief: a plan, the members of the job, and a reserve. gRPC's
// own default is 4 MiB.
constexpr int64_t kMaxOrderBytes = kMaxPlanBytes + (int64_t{4} << 20);
// InvalidArgument: the plan is larger than kMaxPlanBytes.
absl::Status CheckPlanSize(const proto::JobPlan& plan);

void AddVariables(const VariableSet& variables, proto::JobPlan& plan);
// Adds the model's moving statistics.
void AddStatistics(const VariableSet& statistics, proto::JobPlan& plan);

// Returns the plan's variables. InvalidArgument: the variables contradict the plan's signature or the rules
// of VariableSet.
absl::StatusOr<VariableSet> VariablesOf(const proto::JobPlan& plan);
absl::StatusOr<VariableSet> StatisticsOf(const proto::JobPlan& plan);

// Samples of one update: the global batch or, if each push is an update (asynchronous), a worker's batch.
int64_t SamplesPerUpdate(const proto::JobPlan& plan);

// Samples used before `position` of epoch `epoch`; learning-rate schedules depend on this number. Samples
// left out by drop_remainder do not count.
int64_t SamplesUsed(const proto::JobPlan& plan, int64_t epoch, int64_t position);

// The number of samples that the whole job uses, as limited by its epochs and max_steps. A decay of the
// learning rate without a length of its own spans these samples, also after the job was resumed with another
// length.
int64_t TotalSamples(const proto::JobPlan& plan);

// The job's learning-rate schedule. Lengths in epochs are converted to samples with the numbers of the plan.
LearningRateSchedule ScheduleOf(const proto::JobPlan& plan);

// The number of servers that hold shards and get pushes. These servers have the lowest indices. If a job has
// more servers than shards, its last servers are empty.
int ServersWithShards(const proto::Placement& placement);

// True if each server's shards have a copy on another server (ParameterServer.replicas), so that the job goes
// on after the loss of a server.
bool CopiesShards(const proto::JobPlan& plan);
// In such a job: the server that keeps the copy of the shards
// of `server`, and the server whose copy `server` keeps.
int BackupOf(const proto::Placement& placement, int server);
int PrimaryOf(const proto::Placement& placement, int server);

// The device of a worker: the device that its host names, otherwise the job's device.
proto::Device::Kind DeviceOf(const proto::JobPlan& plan, int worker);
// True if the device of any worker of the job is a GPU, or the CPU.
bool AnyOnGpu(const proto::JobPlan& plan);
bool AnyOnCpu(const proto::JobPlan& plan);

// Like the functions of the same names in runtime/shape/job_shape.h, but these functions also consider the
// devices that a host file gives to the workers.
bool FormsNewGroups(const proto::JobPlan& plan);
bool SurvivesWorkerLoss(const proto::JobPlan& plan);

// The name of a task in messages: "worker 2", "ps 0" or "chief".
std::string TaskName(proto::Role role, int index);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_JOB_PLAN_H_
