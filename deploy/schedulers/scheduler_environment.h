// Reads this process's role in a job from the environment variables that a scheduler sets. Pure: the
// environment is a parameter, since only the `tethys` command reads it. Each scheduler has a file of its own
// and a row in Schedulers().
//
// Every error is InvalidArgument and names the variable, its value, what was expected and what to do.
#ifndef TETHYS_DEPLOY_SCHEDULERS_SCHEDULER_ENVIRONMENT_H_
#define TETHYS_DEPLOY_SCHEDULERS_SCHEDULER_ENVIRONMENT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/member.pb.h"
#include "runtime/base/status.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

// The place of one process in a job that a scheduler has started.
struct ScheduledTask {
  proto::Role role = proto::ROLE_UNKNOWN;
  int index = 0;
  int workers = 0;
  int servers = 0;
  // The name or address at which other processes reach this process. Empty: the address of this machine on
  // the route to chief_host.
  std::string host;
  std::string chief_host;
  std::vector<std::string> hosts;  // The names or addresses of known machines; the chief's is the first.
  bool other_machines = false;     // True: the job has processes on machines that `hosts` does not name.
  int chief_port = 0;              // The chief's port; 0: the scheduler does not set it.
  int port_offset = 0;        // Added to the default port if chief_port is 0, so that jobs can share a node.
  bool starts_chief = false;  // True for the chief or, if the scheduler starts no chief, worker 0.
};

// Returns the value of an environment variable; nullopt: the variable is not set.
using Environment = std::function<absl::optional<std::string>(const std::string& name)>;

struct SchedulerFacts {
  Environment environment;
  JobShape shape = {};                        // The shape that the job file gives to the job.
  std::function<std::string()> machine = {};  // Returns the full name of this machine; may block.
};

struct Scheduler {
  absl::string_view name;  // The value of --from.
  absl::StatusOr<ScheduledTask> (*task)(const SchedulerFacts& facts);
};
const std::vector<Scheduler>& Schedulers();
// The names of all schedulers: "slurm|kubernetes|...".
std::string SchedulerNames();

// Reads TF_CONFIG, as in TensorFlow: "cluster" lists the addresses of chief (optional), worker and ps; "task"
// is this process. Without a chief, worker 0 also runs the chief, at worker 0's address. Ports of other
// workers and of servers are ignored: each process takes a free port.
absl::StatusOr<ScheduledTask> TaskFromTfConfig(const SchedulerFacts& facts);

// Reads SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST (or SLURM_JOB_NODELIST) and SLURMD_NODENAME. Process
// 0 is the chief, on the first node; the next processes are the job's servers; all other processes are
// workers. port_offset is computed from SLURM_JOB_ID and SLURM_STEP_ID, if they are numbers. It is in [0,
// 999] and differs between the first 8 steps of 125 consecutive jobs.
absl::StatusOr<ScheduledTask> TaskFromSlurm(const SchedulerFacts& facts);

// Reads JOB_COMPLETION_INDEX, which Kubernetes sets in the pods of an Indexed Job. Index 0 is the chief, the
// next indices are the job's servers, then its workers; the job file gives their numbers. The machine's name
// is NAME-INDEX.SERVICE...; the chief's name is the same with the index 0.
absl::StatusOr<ScheduledTask> TaskFromKubernetes(const SchedulerFacts& facts);

// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which torchrun and PyTorch's operators set. As every
// rank trains under torchrun, there is no process for the chief alone: the first ranks are the workers, and
// rank 0 also runs the chief; the last ranks are the job's servers. LOCAL_WORLD_SIZE, if it is set, tells
// whether all ranks are on one machine. If torchrun itself listens at MASTER_PORT
// (TORCHELASTIC_USE_AGENT_STORE is True), chief_port is 0 and port_offset follows from MASTER_PORT.
absl::StatusOr<ScheduledTask> TaskFromTorchrun(const SchedulerFacts& facts);

// True if this process has GPUs of its own, as with srun --gpus-per-task: CUDA_VISIBLE_DEVICES then names
// SLURM_GPUS_PER_TASK GPUs. False if CUDA_VISIBLE_DEVICES names as many GPUs as the step has on this node
// (SLURM_STEP_GPUS or SLURM_JOB_GPUS): then the tasks share the GPUs (--gpu-bind=none).
absl::StatusOr<bool> SlurmGivesOwnGpus(const Environment& environment);

// Expands Slurm's lists of hosts: "node[01-03,7],login" is node01, node02, node03, node7, login. At most
// 65536 hosts.
absl::StatusOr<std::vector<std::string>> ParseNodelist(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SCHEDULERS_SCHEDULER_ENVIRONMENT_H_
