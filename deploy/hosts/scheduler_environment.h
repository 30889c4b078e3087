// Turns the environment variables of a scheduler into the roles of a job: TF_CONFIG, as TensorFlow has it,
// and Slurm's variables. Only the command reads the environment; it is passed in here. Pure.
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
  std::string host;  // Address of this process for the others.
  std::string chief_host;
  int chief_port = 0;         // 0: unknown to the scheduler.
  int port_offset = 0;        // Added to the default port if chief_port is 0, so that jobs can share a node.
  bool starts_chief = false;  // This process also runs the chief: the chief itself, or worker 0 in its stead.
};

// Returns an environment variable's value, or nullopt if it is not set.
using Environment = std::function<absl::optional<std::string>(const std::string& name)>;

// Reads TF_CONFIG: "cluster" lists chief (or none), worker and ps; "task" is this process. Without a chief,
// worker 0 also runs the chief, at its own address. Ports of workers and servers are ignored: each takes a
// free one.
absl::StatusOr<ScheduledTask> TaskFromTfConfig(const Environment& environment);

// Reads SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST (or SLURM_JOB_NODELIST) and SLURMD_NODENAME. Process
// 0 is the chief, on the first node; the next `servers` processes are servers; all others are workers. The
// offset comes from SLURM_JOB_ID and SLURM_STEP_ID if they are numbers: 0 to 999, different for the first 8
// steps of 125 consecutive jobs.
absl::StatusOr<ScheduledTask> TaskFromSlurm(const Environment& environment, int servers);

// Whether this process has GPUs of its own: with srun --gpus-per-task, each task's CUDA_VISIBLE_DEVICES names
// SLURM_GPUS_PER_TASK of them. If it names as many as the step has on this node (SLURM_STEP_GPUS or
// SLURM_JOB_GPUS), tasks share them (--gpu-bind=none).
absl::StatusOr<bool> SlurmGivesOwnGpus(const Environment& environment);

// Expands Slurm's lists of hosts: "node[01-03,7],login" is node01, node02, node03, node7, login. At most
// 65536.
absl::StatusOr<std::vector<std::string>> ParseNodelist(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_SCHEDULER_ENVIRONMENT_H_
