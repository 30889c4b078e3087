#include "deploy/schedulers/scheduler_environment.h"

#include "absl/strings/str_join.h"

namespace tethys {

const std::vector<Scheduler>& Schedulers() {
  static const std::vector<Scheduler>& schedulers =
      *new std::vector<Scheduler>{{"slurm", TaskFromSlurm},
                                  {"kubernetes", TaskFromKubernetes},
                                  {"torchrun", TaskFromTorchrun},
                                  {"tf_config", TaskFromTfConfig}};
  return schedulers;
}

std::string SchedulerNames() {
  return absl::StrJoin(Schedulers(), "|", [](std::string* out, const Scheduler& scheduler) {
    absl::StrAppend(out, scheduler.name);
  });
}

}  // namespace tethys
