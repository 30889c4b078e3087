// The processes of a job. On this machine they are children of the launcher. On another machine they are
// children of an agent (deploy/launcher/host_agent.h), which is reached by one ssh connection. The launcher
// starts, watches and ends both kinds alike.
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

  // The end of the process; nullopt while it runs. For a process on another machine, the answer is as of the
  // last call of JobProcesses::Advance.
  virtual const std::optional<ProcessExit>& Poll() = 0;
  // Sends the signal to the process's group and resumes the group if it is stopped.
  virtual void Signal(int number) = 0;
  // The lines of the process's standard output; none without JobCommand::read_output.
  virtual LineReader& lines() = 0;
};

struct JobCommand {
  std::vector<std::string> arguments = {};  // Arguments of Place::program.
  std::string input = {};                   // The first text on the process's standard input, at most 4 KiB.
  std::string log_path = {};                // A path on this machine; standard error is appended to the file.
  bool read_output = false;
};

// Invariant: after the destructor no process that this object started is alive. On a machine whose connection
// broke, processes live until the agent on that machine notices the break.
class JobProcesses {
 public:
  // The time an agent has to end its remaining processes.
  static constexpr Nanoseconds kFarewell = 5 * kSecond;

  // `log_folder` must exist before Connect or Start. The file agent-HOST.log in this folder receives the
  // standard error of ssh and of the agent.
  JobProcesses(std::string job_id, std::string log_folder)
      : job_id_(std::move(job_id)), log_folder_(std::move(log_folder)) {}
  ~JobProcesses();

  // Begins to connect to the machines of these places, so that Start waits less later.
  void Connect(const std::vector<Place>& places);

  // Starts a process, over a new connection if the connection to the place's machine has broken. Fails if the
  // program cannot be executed on this machine or, for another machine, if ssh cannot be executed.
  absl::StatusOr<std::unique_ptr<JobProcess>> Start(const Place& place, const JobCommand& command);

  // Adds the descriptors that the caller must poll to `fds`. Call Advance when one of them is ready.
  void AddTo(std::vector<pollfd>& fds) const;
  void Advance(Nanoseconds now);

  // Closes the connections to all other machines, because their agents may not answer. The processes on these
  // machines count as lost from now on.
  void Disconnect();

 private:
  absl::StatusOr<std::shared_ptr<AgentConnection>> ConnectionTo(const Place& place);

  const std::string job_id_;
  const std::string log_folder_;
  std::map<std::string, std::shared_ptr<AgentConnection>> connections_;  // Keyed by Place::ssh.
  LauncherHeart heart_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_JOB_PROCESS_H_
