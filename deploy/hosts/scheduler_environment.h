// What a scheduler tells the processes it starts, turned into the roles of a job: TF_CONFIG, for those who
// come from TensorFlow, and Slurm's variables. Only the command reads the environment; here it is handed in.
// Pure.
//
// Every error is InvalidArgument and names the variable, what it says, what was expected and what to do.
#ifndef TETHYS_DEPLOY_HOSTS_SCHEDULER_ENVIRONMENT_H_
#define TETHYS_DEPLOY_HOSTS_SCHEDULER_ENVIRONMENT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The place of one process in a job that a scheduler has started.
struct ScheduledTask {
  proto::Role role = proto::ROLE_UNKNOWN;
  int index = 0;
  int workers = 0;
  int servers = 0;
  std::string host;  // This process's, as the others reach it.
  std::string chief_host;
  int chief_port = 0;         // 0: the scheduler does not say.
  bool starts_chief = false;  // This process also runs the chief: the chief itself, or worker 0 in its stead.
};

// A variable of the environment; absent where it is not set.
using Environment = std::function<absl::optional<std::string>(const std::string& name)>;

// "cluster" names chief (or none), worker and ps; "task" is this process. Without a chief, worker 0 runs it
// beside itself, at its own address. Ports of workers and servers are not used: each takes a free one.
absl::StatusOr<ScheduledTask> TaskFromTfConfig(const Environment& environment);

// From SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST (or SLURM_JOB_NODELIST) and SLURMD_NODENAME: process 0
// is the chief, on the first node; then come the servers, of which the job has `servers`; all others are
// workers.
absl::StatusOr<ScheduledTask> TaskFromSlurm(const Environment& environment, int servers);

// Whether this process is shown GPUs that Slurm shows to no other: srun --gpus-per-task, which counts them in
// SLURM_GPUS_PER_TASK, lets each task's CUDA_VISIBLE_DEVICES name that many. Where it names as many as the
// step has on this node (SLURM_STEP_GPUS, or SLURM_JOB_GPUS), tasks share them (--gpu-bind=none).
absl::StatusOr<bool> SlurmGivesOwnGpus(const Environment& environment);

// Slurm's lists of hosts: "node[01-03,7],login" is node01, node02, node03, node7, login. At most 65536.
absl::StatusOr<std::vector<std::string>> ParseNodelist(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_SCHEDULER_ENVIRONMENT_H_
