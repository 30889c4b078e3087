#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "deploy/schedulers/scheduler_environment.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

const JobShape kShape = {{}, 3, 2};

void CheckTask(const absl::StatusOr<ScheduledTask>& task, absl::string_view variable) {
  if (!task.ok()) return RequireRefusal(task.status(), variable);
  Require(task->workers >= 1 && task->servers >= 0, "at least one worker trains");
  const int count = task->role == proto::WORKER ? task->workers : task->role == proto::PS ? task->servers : 1;
  Require(task->index >= 0 && task->index < count, "a task's index is within its role");
  Require(!task->chief_host.empty() && !task->hosts.empty(), "a task can find the chief");
}

}  // namespace

void FuzzScheduler(absl::string_view input) {
  std::map<std::string, std::string> variables;
  variables["TF_CONFIG"] = std::string(TakeSection(input));
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    variables.insert(std::pair<std::string, std::string>(absl::StrSplit(line, absl::MaxSplits('=', 1))));
  }
  const Environment environment = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? absl::optional<std::string>() : found->second;
  };
  const auto machine = [&] { return environment("HOSTNAME").value_or("train-1.service"); };
  const SchedulerFacts facts = {.environment = environment, .shape = kShape, .machine = machine};
  CheckTask(TaskFromTfConfig(facts), "TF_CONFIG");
  CheckTask(TaskFromSlurm(facts), "SLURM");
  CheckTask(TaskFromKubernetes(facts), "JOB_COMPLETION_INDEX");
  CheckTask(TaskFromTorchrun(facts), "");
  const absl::StatusOr<bool> own_gpus = SlurmGivesOwnGpus(environment);
  if (!own_gpus.ok()) RequireRefusal(own_gpus.status(), "SLURM_GPUS_PER_TASK");
}

}  // namespace tethys::fuzz
