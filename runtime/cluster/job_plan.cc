#include "runtime/cluster/job_plan.h"

#include <algorithm>
#include <limits>

#include "runtime/cluster/sample_order.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

void AddSpecs(const VariableSet& variables, google::protobuf::RepeatedPtrField<proto::VariableSpec>& specs) {
  for (const Variable& variable : variables.variables()) {
    proto::VariableSpec& spec = *specs.Add();
    spec.set_name(variable.name);
    for (const int64_t axis : variable.shape) spec.add_shape(axis);
    spec.set_layout(variable.layout);
    spec.set_begin(variable.range.begin);
    spec.set_initial_value(static_cast<proto::VariableSpec::InitialValue>(variable.initial_value));
    spec.set_fan_in(variable.fan_in);
    spec.set_fan_out(variable.fan_out);
    spec.set_frozen(!variable.trainable);
  }
}

absl::StatusOr<VariableSet> SetOf(const google::protobuf::RepeatedPtrField<proto::VariableSpec>& specs) {
  VariableSet variables;
  for (const proto::VariableSpec& spec : specs) {
    const InitialValue initial_value = proto::VariableSpec::InitialValue_IsValid(spec.initial_value())
                                           ? static_cast<InitialValue>(spec.initial_value())
                                           : InitialValue::kZeros;
    TETHYS_RETURN_IF_ERROR(variables.Add(spec.name(), Shape(spec.shape().begin(), spec.shape().end()),
                                         spec.layout(), initial_value, spec.fan_in(), spec.fan_out(),
                                         !spec.frozen()));
    if (variables.variables().back().range.begin != spec.begin()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the plan puts variable '", spec.name(), "' at element ", spec.begin(),
          " of the arena, but this variable belongs at element ", variables.variables().back().range.begin));
    }
  }
  return variables;
}

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The number of samples in `steps` updates; the last batch of an epoch may be short. kNoLimit: more samples
// than any job can count.
int64_t SamplesOfSteps(int64_t steps, int64_t batch, int64_t epoch) {
  if (batch <= 0 || epoch <= 0) return 0;
  const int64_t steps_of_epoch = (epoch + batch - 1) / batch;
  const int64_t epochs = steps / steps_of_epoch;
  if (epochs > kNoLimit / epoch - 1) return kNoLimit;
  return epochs * epoch + std::min(epoch, steps % steps_of_epoch * batch);
}

}  // namespace

absl::Status CheckPlanSize(const proto::JobPlan& plan) {
  const auto bytes = static_cast<int64_t>(plan.ByteSizeLong());
  if (bytes <= kMaxPlanBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the plan of this job, with ", plan.variable_size(), " variables in ", plan.placement().shard_size(),
      " shards, takes ", bytes, " bytes, but at most ", kMaxPlanBytes,
      " bytes can be sent to every task: let tuning.partitioner cut the model into fewer shards"));
}

void AddVariables(const VariableSet& variables, proto::JobPlan& plan) {
  AddSpecs(variables, *plan.mutable_variable());
  plan.set_model_signature(variables.signature());
}

void AddStatistics(const VariableSet& statistics, proto::JobPlan& plan) {
  AddSpecs(statistics, *plan.mutable_statistic());
}

absl::StatusOr<VariableSet> VariablesOf(const proto::JobPlan& plan) {
  TETHYS_ASSIGN_OR_RETURN(VariableSet variables, SetOf(plan.variable()));
  if (variables.signature() != plan.model_signature()) {
    return absl::InvalidArgumentError("the plan's variables contradict its model signature");
  }
  return variables;
}

absl::StatusOr<VariableSet> StatisticsOf(const proto::JobPlan& plan) { return SetOf(plan.statistic()); }

int64_t SamplesPerUpdate(const proto::JobPlan& plan) {
  const bool each_push = TraitsOf(plan.job()).update == UpdateUnit::kPush;
  return each_push ? plan.batch_per_worker() : plan.global_batch();
}

int64_t SamplesUsed(const proto::JobPlan& plan, int64_t epoch, int64_t position) {
  return epoch * SamplesPerEpoch(plan) + position;
}

// `by_epochs` does not overflow: epochs <= 2^20, samples of an epoch <= 2^40.
int64_t TotalSamples(const proto::JobPlan& plan) {
  const proto::Job& job = plan.job();
  const int64_t by_epochs = SamplesUsed(plan, job.epochs(), 0);
  if (job.max_steps() == 0) return by_epochs;
  const int64_t by_steps = SamplesOfSteps(job.max_steps(), SamplesPerUpdate(plan), SamplesPerEpoch(plan));
  return job.epochs() == 0 ? by_steps : std::min(by_epochs, by_steps);
}

LearningRateSchedule ScheduleOf(const proto::JobPlan& plan) {
  return LearningRateSchedule(plan.job().optimizer(), {SamplesPerEpoch(plan), TotalSamples(plan)},
                              plan.job().workers());
}

int ServersWithShards(const proto::Placement& placement) {
  int servers = 0;
  for (const proto::Shard& shard : placement.shard()) servers = std::max(servers, shard.server() + 1);
  return servers;
}

bool CopiesShards(const proto::JobPlan& plan) {
  return plan.job().strategy().parameter_server().replicas() > 1 && SurvivesWorkerLoss(plan);
}

int BackupOf(const proto::Placement& placement, int server) { return (server + 1) % placement.servers(); }

int PrimaryOf(const proto::Placement& placement, int server) {
  return (server + placement.servers() - 1) % placement.servers();
}

proto::Device::Kind DeviceOf(const proto::JobPlan& plan, int worker) {
  return worker < plan.worker_device_size() ? plan.worker_device(worker) : plan.job().device().kind();
}

bool AnyOnGpu(const proto::JobPlan& plan) {
  for (int worker = 0; worker < plan.job().workers(); ++worker) {
    if (DeviceOf(plan, worker) == proto::Device::CUDA) return true;
  }
  return false;
}

bool AnyOnCpu(const proto::JobPlan& plan) {
  for (int worker = 0; worker < plan.job().workers(); ++worker) {
    if (DeviceOf(plan, worker) == proto::Device::CPU) return true;
  }
  return false;
}

bool FormsNewGroups(const proto::JobPlan& plan) { return FormsNewGroups(plan.job(), !AnyOnCpu(plan)); }

bool SurvivesWorkerLoss(const proto::JobPlan& plan) {
  return TraitsOf(plan.job()).leases() || FormsNewGroups(plan);
}

std::string TaskName(proto::Role role, int index) {
  switch (role) {
    case proto::CHIEF:
      return "chief";
    case proto::WORKER:
      return absl::StrCat("worker ", index);
    case proto::PS:
      return absl::StrCat("ps ", index);
    default:
      return absl::StrCat("task of unknown role ", static_cast<int>(role));
  }
}

}  // namespace tethys
