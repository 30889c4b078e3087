#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/schedulers/scheduler_environment.h"
#include "deploy/schedulers/variables.h"

namespace tethys {
namespace {

constexpr char kRemedy[] = "start this command by torchrun --no-python, or by an operator for PyTorch";
constexpr int kMaxPort = 65535;
constexpr int kPortOffsets = 1000;
constexpr char kThisMachine[] = "127.0.0.1";

// True if torchrun itself listens at MASTER_PORT, so that no process of the job can.
bool AgentListens(const Environment& environment) {
  return absl::EqualsIgnoreCase(environment("TORCHELASTIC_USE_AGENT_STORE").value_or(""), "true");
}

// True if all ranks are on this machine.
absl::StatusOr<bool> AllRanksHere(const Environment& environment, int ranks) {
  if (!environment("LOCAL_WORLD_SIZE").has_value()) return ranks == 1;
  TETHYS_ASSIGN_OR_RETURN(const int local, VariableNumber(environment, "LOCAL_WORLD_SIZE", kRemedy));
  if (local < 1 || local > ranks) {
    return BadVariable("LOCAL_WORLD_SIZE", absl::StrCat("is ", local, ", but WORLD_SIZE is ", ranks));
  }
  return local == ranks;
}

}  // namespace

absl::StatusOr<ScheduledTask> TaskFromTorchrun(const SchedulerFacts& facts) {
  const Environment& environment = facts.environment;
  TETHYS_ASSIGN_OR_RETURN(const int rank, VariableNumber(environment, "RANK", kRemedy));
  TETHYS_ASSIGN_OR_RETURN(const int ranks, VariableNumber(environment, "WORLD_SIZE", kRemedy));
  TETHYS_ASSIGN_OR_RETURN(const std::string chief, VariableText(environment, "MASTER_ADDR", kRemedy));
  TETHYS_ASSIGN_OR_RETURN(const int port, VariableNumber(environment, "MASTER_PORT", kRemedy));
  if (rank >= ranks) return BadVariable("RANK", absl::StrCat("is ", rank, ", but WORLD_SIZE is ", ranks));
  if (port < 1 || port > kMaxPort) {
    return BadVariable("MASTER_PORT", absl::StrCat("is ", port, ", expected a port from 1 to ", kMaxPort));
  }
  const int servers = facts.shape.servers;
  if (ranks < servers + 1) {
    return BadVariable("WORLD_SIZE",
                       absl::StrCat("is ", ranks, ", but ", ProcessesText(/*chief=*/false, servers, 1),
                                    " need ", servers + 1, ": start more ranks"));
  }
  TETHYS_ASSIGN_OR_RETURN(const bool here, AllRanksHere(environment, ranks));
  ScheduledTask task;
  task.workers = ranks - servers;
  task.servers = servers;
  const bool worker = rank < task.workers;
  task.role = worker ? proto::WORKER : proto::PS;
  task.index = worker ? rank : rank - task.workers;
  task.starts_chief = rank == 0;
  task.other_machines = !here;
  const bool loopback = absl::StartsWith(chief, "127.");
  if (here) {
    task.host = loopback ? chief : kThisMachine;
  } else if (rank == 0) {
    // PyTorch's operator may give the first pod the address localhost.
    task.host = loopback || chief == "localhost" ? facts.machine() : chief;
  }
  task.chief_host = here ? task.host : chief;
  task.hosts = {task.chief_host};
  if (AgentListens(environment)) {
    task.port_offset = port % kPortOffsets;
  } else {
    task.chief_port = port;
  }
  return task;
}

}  // namespace tethys
