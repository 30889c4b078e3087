// The processes of a job, each a child of this process or, on another machine, of an agent there
// (deploy/launcher/host_agent.h), which one ssh for each machine leads to. The launcher starts, watches and
// ends both alike.
//
// Thread-compatible; nothing blocks but the destruction of JobProcesses, for at most kFarewell. Requires
// SIGPIPE to be ignored.
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

  // How it ended, if it has. Of one on another machine, as of the last JobProcesses::Advance.
  virtual const std::optional<ProcessExit>& Poll() = 0;
  // To its process group, and wakes it if it is stopped.
  virtual void Signal(int number) = 0;
  // Of its standard output, where that is read.
  virtual LineReader& lines() = 0;
};

struct JobCommand {
  std::vector<std::string> arguments = {};  // Of the place's program.
  std::string input = {};                   // At most 4 KiB.
  std::string log_path = {};                // Here; standard error is appended to it.
  bool read_output = false;
};

// Invariant: once it is destroyed, nothing that it started lives on; on machines that were cut off, as soon
// as their agents notice that.
class JobProcesses {
 public:
  // An agent has so long to end what is left of its processes.
  static constexpr Nanoseconds kFarewell = 5 * kSecond;

  // `log_folder` exists and gets agent-HOST.log, what ssh and the agent have to complain about.
  JobProcesses(std::string job_id, std::string log_folder)
      : job_id_(std::move(job_id)), log_folder_(std::move(log_folder)) {}
  ~JobProcesses();

  // Begins to connect with the machines of these places, so that this need not be waited for later.
  void Connect(const std::vector<Place>& places);

  // Where the connection to the place's machine has broken, begins a new one. The error: the program, or ssh,
  // cannot be executed here.
  absl::StatusOr<std::unique_ptr<JobProcess>> Start(const Place& place, const JobCommand& command);

  // What to wait for, and then to call Advance.
  void AddTo(std::vector<pollfd>& fds) const;
  void Advance(Nanoseconds now);

  // Gives up the machines whose agents may not answer: all of their processes end now, and are lost to us.
  void Disconnect();

 private:
  absl::StatusOr<std::shared_ptr<AgentConnection>> ConnectionTo(const Place& place);

  const std::string job_id_;
  const std::string log_folder_;
  std::map<std::string, std::shared_ptr<AgentConnection>> connections_;  // By host.
  LauncherHeart heart_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_JOB_PROCESS_H_
