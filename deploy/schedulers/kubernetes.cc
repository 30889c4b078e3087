#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "deploy/schedulers/scheduler_environment.h"
#include "deploy/schedulers/variables.h"

namespace tethys {
namespace {

constexpr char kIndex[] = "JOB_COMPLETION_INDEX";

// The name of the pod with the index 0, from the name of the pod with `index`: "train-0.service" from
// "train-2.service".
absl::StatusOr<std::string> ChiefName(const std::string& own, int index) {
  const size_t dot = own.find('.');
  absl::string_view job = absl::string_view(own).substr(0, dot);
  if (!absl::ConsumeSuffix(&job, absl::StrCat("-", index)) || job.empty()) {
    return BadVariable(kIndex,
                       absl::StrCat("is ", index, ", but this pod's name is ", own, ", not NAME-", index,
                                    ": an Indexed Job without hostNetwork gives its pods such names"));
  }
  if (dot == std::string::npos) {
    return BadVariable(kIndex, absl::StrCat("this pod's name ", own,
                                            " belongs to no service, so other pods cannot find it: set "
                                            "`subdomain` in the pod template, to the name of a headless "
                                            "Service (tethys manifest kubernetes writes both)"));
  }
  return absl::StrCat(job, "-0", absl::string_view(own).substr(dot));
}

}  // namespace

absl::StatusOr<ScheduledTask> TaskFromKubernetes(const SchedulerFacts& facts) {
  TETHYS_ASSIGN_OR_RETURN(
      const int index,
      VariableNumber(facts.environment, kIndex,
                     "Kubernetes sets it in the pods of a Job with completionMode: Indexed (tethys manifest "
                     "kubernetes writes one)"));
  const int pods = 1 + facts.shape.servers + facts.shape.workers;
  if (index >= pods) {
    return BadVariable(kIndex,
                       absl::StrCat("is ", index, ", but the job has ",
                                    ProcessesText(/*chief=*/true, facts.shape.servers, facts.shape.workers),
                                    ", which are the indices 0 to ", pods - 1,
                                    ": set completions and parallelism of "
                                    "the Job to ",
                                    pods, ", or change the numbers in the job file"));
  }
  ScheduledTask task = TaskByNumber(index, facts.shape.workers, facts.shape.servers);
  task.host = facts.machine();
  TETHYS_ASSIGN_OR_RETURN(task.chief_host, ChiefName(task.host, index));
  task.hosts = {task.chief_host};
  task.other_machines = true;
  return task;
}

}  // namespace tethys
