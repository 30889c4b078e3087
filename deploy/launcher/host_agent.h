// What an agent does: the far end of the one connection that a launcher holds to each other machine of a job
// (proto/agent.proto). A pure class: what comes from the launcher and from the processes goes in, with the
// time; what is to be done, and the bytes of reports, come out. deploy/launcher/agent_process.h carries it
// out. Thread-compatible; never blocks.
#ifndef TETHYS_DEPLOY_LAUNCHER_HOST_AGENT_H_
#define TETHYS_DEPLOY_LAUNCHER_HOST_AGENT_H_

#include <map>
#include <optional>
#include <set>
#include <string>

#include "deploy/launcher/agent_frames.h"
#include "deploy/process/subprocess.h"
#include "proto/agent.pb.h"

namespace tethys {

// Invariants:
//  1. A process that was started is reported as exited once, behind all of its output.
//  2. OUTPUT is whole and in order. LOG is in order, and what was dropped is said where it is missing.
//  3. What waits to be sent is bounded by kMaxWaiting, and the reports of ends.
class HostAgent {
 public:
  static constexpr size_t kMaxWaiting = 1 << 20;
  static constexpr size_t kMaxOutput = 64 << 10;  // Of one report.

  // The processes of this host.
  class Processes {
   public:
    virtual ~Processes() = default;
    virtual absl::Status Start(const proto::StartProcess& order) = 0;
    virtual void Signal(uint32_t id, int number) = 0;
  };

  HostAgent(Processes& processes, Nanoseconds now);

  // Orders, in pieces as they come.
  void OnInput(absl::string_view bytes, Nanoseconds now);
  // The connection has ended.
  void OnInputEnd();
  // At most kMaxOutput bytes of a running process. OUTPUT requires TakesOutput().
  void OnOutput(uint32_t id, proto::ProcessOutput::Stream stream, absl::string_view bytes);
  void OnExit(uint32_t id, const ProcessExit& exit);
  // After all that was there to read, so that a silence of our own is not taken for the launcher's.
  void OnTime(Nanoseconds now);

  // Otherwise output is to stay where it is: the connection takes nothing at the moment.
  bool TakesOutput() const { return waiting().size() < kMaxWaiting; }

  // Bytes for the launcher, and how many of them were sent.
  absl::string_view waiting() const { return absl::string_view(waiting_).substr(sent_); }
  void OnSent(size_t bytes);

  // Given once it is over: every process is to be killed. OK: the launcher is gone. DeadlineExceeded: it is
  // silent. InvalidArgument: it does not speak this protocol.
  const std::optional<absl::Status>& end() const { return end_; }

 private:
  void Obey(const std::string& bytes);
  void Start(const proto::StartProcess& order);
  void Send(const proto::AgentReport& report);
  void SendOutput(uint32_t id, proto::ProcessOutput::Stream stream, absl::string_view bytes);
  void SendExit(uint32_t id, const ProcessExit& exit, const std::string& error);
  void TellDropped(uint32_t id);
  void End(absl::Status status);

  Processes& processes_;
  FrameReader orders_;
  std::set<uint32_t> running_;
  uint32_t last_id_ = 0;
  std::map<uint32_t, size_t> dropped_;  // Bytes of logs, not told yet.
  std::string waiting_;
  size_t sent_ = 0;  // Of waiting_.
  Nanoseconds last_heard_;
  Nanoseconds last_beat_;
  std::optional<absl::Status> end_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_HOST_AGENT_H_
