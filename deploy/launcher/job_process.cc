#include "deploy/launcher/job_process.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/clock.h"

namespace tethys {
namespace {

class ProcessHere final : public JobProcess {
 public:
  explicit ProcessHere(Subprocess process) : process_(std::move(process)) {
    lines_.Attach(process_.output());
  }
  const std::optional<ProcessExit>& Poll() override { return process_.Poll(); }
  void Signal(int number) override { process_.Signal(number); }
  LineReader& lines() override { return lines_; }

 private:
  Subprocess process_;
  LineReader lines_;
};

class ProcessThere final : public JobProcess {
 public:
  ProcessThere(std::shared_ptr<AgentConnection> agent, uint32_t id, std::shared_ptr<RemoteProcess> process)
      : agent_(std::move(agent)), id_(id), process_(std::move(process)) {}
  const std::optional<ProcessExit>& Poll() override { return process_->exit; }
  void Signal(int number) override { agent_->Signal(id_, number); }
  LineReader& lines() override { return process_->lines; }

 private:
  const std::shared_ptr<AgentConnection> agent_;
  const uint32_t id_;
  const std::shared_ptr<RemoteProcess> process_;
};

}  // namespace

JobProcesses::~JobProcesses() {
  heart_.Stop();  // LauncherHeart holds the pipes open, too, and an agent ends only when its pipe closes.
  for (const auto& [key, connection] : connections_) connection->SayFarewell();
  const MonotonicClock clock;
  const Nanoseconds deadline = clock.Now() + kFarewell;
  for (const auto& [key, connection] : connections_) connection->WaitForEnd(deadline - clock.Now());
}

void JobProcesses::Connect(const std::vector<Place>& places) {
  for (const Place& place : places) {
    // An error is ignored here, because Start will return it.
    if (!place.ssh.empty()) ConnectionTo(place).status().IgnoreError();
  }
}

absl::StatusOr<std::shared_ptr<AgentConnection>> JobProcesses::ConnectionTo(const Place& place) {
  const std::string key = absl::StrJoin(place.ssh, "\n");
  const auto found = connections_.find(key);
  if (found != connections_.end() && !found->second->lost()) return found->second;
  const std::string error_path = absl::StrCat(log_folder_, "/agent-", place.host, ".log");
  TETHYS_ASSIGN_OR_RETURN(std::shared_ptr<AgentConnection> connection,
                          AgentConnection::Open(place, job_id_, error_path));
  return connections_[key] = std::move(connection);
}

absl::StatusOr<std::unique_ptr<JobProcess>> JobProcesses::Start(const Place& place,
                                                                const JobCommand& command) {
  if (place.ssh.empty()) {
    SpawnOptions spawn = CommandAt(place, command.arguments);
    spawn.input = command.input;
    spawn.log_path = command.log_path;
    spawn.read_output = command.read_output;
    TETHYS_ASSIGN_OR_RETURN(Subprocess process, Subprocess::Spawn(spawn));
    return std::make_unique<ProcessHere>(std::move(process));
  }
  TETHYS_ASSIGN_OR_RETURN(std::shared_ptr<AgentConnection> agent, ConnectionTo(place));
  proto::StartProcess order;
  *order.mutable_argument() = {command.arguments.begin(), command.arguments.end()};
  order.set_input(command.input);
  order.set_read_output(command.read_output);
  auto process = std::make_shared<RemoteProcess>(RemoteProcess{.log_path = command.log_path});
  TETHYS_ASSIGN_OR_RETURN(const uint32_t id, agent->Start(std::move(order), process));
  return std::make_unique<ProcessThere>(std::move(agent), id, std::move(process));
}

void JobProcesses::AddTo(std::vector<pollfd>& fds) const {
  for (const auto& [key, connection] : connections_) connection->AddTo(fds);
}

void JobProcesses::Advance(Nanoseconds now) {
  for (const auto& [key, connection] : connections_) connection->Advance(now);
  std::vector<int> orders;
  for (const auto& [key, connection] : connections_) {
    if (!connection->lost()) orders.push_back(connection->orders());
  }
  heart_.Beat(std::move(orders));
}

void JobProcesses::Disconnect() {
  for (const auto& [key, connection] : connections_)
    connection->Lose("the agent on its host did not end the processes there");
}

}  // namespace tethys
