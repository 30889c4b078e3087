// Reads this process's role in a job from the environment variables that a scheduler sets: TF_CONFIG, as in
// TensorFlow, or Slurm's variables. Pure: the environment is a parameter, since only the `tethys` command
// reads it.
//
// Every error is InvalidArgument and names the variable, its value, what was expected and what to do.
#ifndef TETHYS_DEPLOY_HOSTS_SCHEDULER_ENVIRONMENT_H_
#define TETHYS_DEPLOY_HOSTS_SCHEDULER_ENVIRONMENT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/member.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The place of one process in a job that a scheduler has started.
struct ScheduledTask {
  proto::Role role = proto::ROLE_UNKNOWN;
  int index = 0;
  int workers = 0;
  int servers = 0;
  std::string host;  // The name or address at which other processes reach this process.
  std::string chief_host;
  std::vector<std::string> hosts;  // The names or addresses of all machines; the chief's is the first.
  int chief_port = 0;              // The chief's port; 0: the scheduler does not set it.
  int port_offset = 0;        // Added to the default port if chief_port is 0, so that jobs can share a node.
  bool starts_chief = false;  // True for the chief or, if the scheduler starts no chief, worker 0.
};

// Returns the value of an environment variable; nullopt: the variable is not set.
using Environment = std::function<absl::optional<std::string>(const std::string& name)>;

// Reads TF_CONFIG: "cluster" lists the addresses of chief (optional), worker and ps; "task" is this process.
// Without a chief, worker 0 also runs the chief, at worker 0's address. Ports of other workers and of servers
// are ignored: each process takes a free port.
absl::StatusOr<ScheduledTask> TaskFromTfConfig(const Environment& environment);

// Reads SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST (or SLURM_JOB_NODELIST) and SLURMD_NODENAME. Process
// 0 is the chief, on the first node; the next `servers` processes are servers; all other processes are
// workers. port_offset is computed from SLURM_JOB_ID and SLURM_STEP_ID, if they are numbers. It is in [0,
// 999] and differs between the first 8 steps of 125 consecutive jobs.
absl::StatusOr<ScheduledTask> TaskFromSlurm(const Environment& environment, int servers);

// True if this process has GPUs of its own, as with srun --gpus-per-task: CUDA_VISIBLE_DEVICES then names
// SLURM_GPUS_PER_TASK GPUs. False if CUDA_VISIBLE_DEVICES names as many GPUs as the step has on this node
// (SLURM_STEP_GPUS or SLURM_JOB_GPUS): then the tasks share the GPUs (--gpu-bind=none).
absl::StatusOr<bool> SlurmGivesOwnGpus(const Environment& environment);

// Expands Slurm's lists of hosts: "node[01-03,7],login" is node01, node02, node03, node7, login. At most
// 65536 hosts.
absl::StatusOr<std::vector<std::string>> ParseNodelist(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_SCHEDULER_ENVIRONMENT_H_
