// A launcher's connection to the agent on another machine (proto/agent.proto): the ssh process, the orders
// sent, and the state of the processes as reported. Used by deploy/launcher/job_process.h. Thread-compatible;
// only WaitForEnd blocks. Requires SIGPIPE to be ignored.
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
  std::string log_path;  // On this machine.
  LineReader lines = {};
  std::optional<ProcessExit> exit = {};
};

// Invariant: every process has an exit once it or the connection has ended, and its state does not change
// after that.
class AgentConnection {
 public:
  // Standard error of ssh and the agent is appended to `error_path`. Fails if ssh cannot be executed.
  static absl::StatusOr<std::unique_ptr<AgentConnection>> Open(const Place& place, const std::string& job_id,
                                                               const std::string& error_path);

  // Returns the id of the process. InvalidArgument: the order is too large.
  absl::StatusOr<uint32_t> Start(proto::StartProcess order, const std::shared_ptr<RemoteProcess>& process);
  void Signal(uint32_t id, int number);

  // Sends queued orders and reads the reports that have arrived.
  void Advance(Nanoseconds now);
  // Ends the connection at once: every process is lost, for this reason.
  void Lose(const std::string& reason);
  // Closes the order pipe, upon which the agent ends by itself.
  void SayFarewell() { ssh_.CloseInput(); }
  // Blocks until the agent has ended, at most for `timeout`.
  void WaitForEnd(Nanoseconds timeout);

  bool lost() const { return lost_; }
  // The descriptor on which the launcher's heart sends heartbeats.
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
  // The end of standard error of ssh or the agent or, if that is empty, how ssh ended.
  std::string LastWords() const;

  Subprocess ssh_;
  const std::string error_path_;
  std::string errors_;              // The end of its standard error.
  std::deque<std::string> frames_;  // Orders to be written.
  FrameReader reports_{kAgentHello};
  std::map<uint32_t, std::shared_ptr<RemoteProcess>> processes_;  // Those that have not ended.
  uint32_t last_id_ = 0;
  Nanoseconds last_heard_ = 0;
  bool lost_ = false;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_AGENT_CONNECTION_H_
