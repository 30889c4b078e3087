// A launcher's ssh connection to its agent, the process on another machine that starts the job's processes
// there (proto/agent.proto). Contains the ssh process, the queued orders and the reported state of the remote
// processes. Used by deploy/launcher/job_process.h. Thread-compatible; only WaitForEnd blocks. Requires
// SIGPIPE to be ignored.
#ifndef TETHYS_DEPLOY_LAUNCHER_AGENT_CONNECTION_H_
#define TETHYS_DEPLOY_LAUNCHER_AGENT_CONNECTION_H_

#include <poll.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deploy/launcher/agent_frames.h"
#include "deploy/process/line_reader.h"
#include "deploy/process/place.h"
#include "deploy/process/subprocess.h"
#include "proto/agent.pb.h"

namespace tethys {

// State of a remote process, as its agent last reported it.
struct RemoteProcess {
  std::string log_path;  // The path of the process's log, on this machine.
  LineReader lines = {};
  std::optional<ProcessExit> exit = {};
};

// Invariant: once a remote process or the connection has ended, RemoteProcess::exit is set, and the state of
// that process does not change any more.
class AgentConnection {
 public:
  // Starts ssh and, through it, the agent. Appends the standard error of both to `error_path`. Fails if ssh
  // cannot be executed.
  static absl::StatusOr<std::unique_ptr<AgentConnection>> Open(const Place& place, const std::string& job_id,
                                                               const std::string& error_path);

  // Orders the agent to start a process, and returns the id of the process. The state of the process is kept
  // in `process`. InvalidArgument: the order is too large.
  absl::StatusOr<uint32_t> Start(proto::StartProcess order, const std::shared_ptr<RemoteProcess>& process);
  void Signal(uint32_t id, int number);

  // Sends queued orders and reads the reports that have arrived.
  void Advance(Nanoseconds now);
  // Ends the connection at once. All remote processes then count as lost, with `reason` as the cause.
  void Lose(const std::string& reason);
  // Closes the pipe for orders; the agent then ends by itself.
  void SayFarewell() { ssh_.CloseInput(); }
  // Blocks until the agent has ended, at most for `timeout`.
  void WaitForEnd(Nanoseconds timeout);

  bool lost() const { return lost_; }
  // The descriptor for orders, to which LauncherHeart writes heartbeats.
  int orders() const { return ssh_.input(); }
  void AddTo(std::vector<pollfd>& fds) const;

 private:
  AgentConnection(Subprocess ssh, std::string error_path)
      : ssh_(std::move(ssh)), error_path_(std::move(error_path)) {}

  absl::Status Send(const proto::AgentOrder& order);
  void WriteOrders();
  void ReadErrors();
  void ReadReports(Nanoseconds now, int pieces);
  absl::Status Take(const std::string& message);
  void TakeOutput(const proto::ProcessOutput& output);
  void TakeExit(const proto::ProcessExited& exited);
  // A text on why ssh ended. It names the signal that killed the agent, if there was one. Otherwise it is the
  // end of the text that ssh and the agent wrote to standard error or, if they wrote nothing, the exit of
  // ssh.
  std::string LastWords() const;

  Subprocess ssh_;
  const std::string error_path_;
  std::string errors_;              // The end of what ssh and the agent wrote to standard error.
  std::deque<std::string> frames_;  // Orders that are not written yet, as frames.
  FrameReader reports_{kAgentHello};
  std::map<uint32_t, std::shared_ptr<RemoteProcess>> processes_;  // The running processes, by id.
  uint32_t last_id_ = 0;
  Nanoseconds last_heard_ = 0;
  bool lost_ = false;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_AGENT_CONNECTION_H_
