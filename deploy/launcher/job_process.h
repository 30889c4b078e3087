// The processes of a job: children of this process or, on another machine, of an agent there
// (deploy/launcher/host_agent.h), reached by one ssh for each machine. The launcher starts, watches and ends
// both alike.
//
// Thread-compatible; only the destructor of JobProcesses blocks, for at most kFarewell. Requires SIGPIPE to
// be ignored.
#ifndef TETHYS_DEPLOY_LAUNCHER_JOB_PROCESS_H_
#define TETHYS_DEPLOY_LAUNCHER_JOB_PROCESS_H_

#include <poll.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deploy/launcher/agent_connection.h"
#include "deploy/launcher/launcher_heart.h"
#include "deploy/process/line_reader.h"
#include "deploy/process/place.h"
#include "deploy/process/subprocess.h"

namespace tethys {

class JobProcess {
 public:
  virtual ~JobProcess() = default;

  // How it ended, if it has; on another machine, as of the last JobProcesses::Advance.
  virtual const std::optional<ProcessExit>& Poll() = 0;
  // Sends the signal to its process group and continues it if it is stopped.
  virtual void Signal(int number) = 0;
  // The lines of its standard output, with JobCommand::read_output.
  virtual LineReader& lines() = 0;
};

struct JobCommand {
  std::vector<std::string> arguments = {};  // For the place's program.
  std::string input = {};                   // At most 4 KiB.
  std::string log_path = {};                // On this machine; standard error is appended to it.
  bool read_output = false;
};

// Invariant: after its destruction no process that it started is alive; on machines whose connection broke,
// as soon as their agents notice that.
class JobProcesses {
 public:
  // The time an agent has to end its remaining processes.
  static constexpr Nanoseconds kFarewell = 5 * kSecond;

  // `log_folder` must exist; agent-HOST.log in it receives standard error of ssh and the agent.
  JobProcesses(std::string job_id, std::string log_folder)
      : job_id_(std::move(job_id)), log_folder_(std::move(log_folder)) {}
  ~JobProcesses();

  // Begins to connect to the machines of these places, to save time later.
  void Connect(const std::vector<Place>& places);

  // Opens a new connection if that to the place's machine has broken. Fails if the program, or ssh, cannot be
  // executed on this machine.
  absl::StatusOr<std::unique_ptr<JobProcess>> Start(const Place& place, const JobCommand& command);

  // Adds the descriptors to poll; call Advance when one is ready.
  void AddTo(std::vector<pollfd>& fds) const;
  void Advance(Nanoseconds now);

  // Gives up all other machines, whose agents may not answer: their processes count as lost from now on.
  void Disconnect();

 private:
  absl::StatusOr<std::shared_ptr<AgentConnection>> ConnectionTo(const Place& place);

  const std::string job_id_;
  const std::string log_folder_;
  std::map<std::string, std::shared_ptr<AgentConnection>> connections_;  // Keyed by ssh call.
  LauncherHeart heart_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_JOB_PROCESS_H_
