// The protocol of an agent, the process at the far end of a launcher's connection to another machine of a job
// (proto/agent.proto). HostAgent does no input or output itself: its inputs are bytes from the launcher,
// output of the job's processes and the time; its outputs are calls of Processes and bytes of reports.
// deploy/launcher/agent_process.h drives it. Thread-compatible; never blocks.
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
//  1. A process that was started is reported as exited exactly once, after all of its output.
//  2. The stream OUTPUT is complete and in order. The stream LOG is in order, with a note wherever bytes were
//     dropped.
//  3. At most kMaxWaiting bytes, one report of output and the reports of exits wait to be sent.
class HostAgent {
 public:
  static constexpr size_t kMaxWaiting = 1 << 20;
  static constexpr size_t kMaxOutput = 64 << 10;  // The most bytes of output in one report.

  // Starts and signals the job's processes on this host.
  class Processes {
   public:
    virtual ~Processes() = default;
    virtual absl::Status Start(const proto::StartProcess& order) = 0;
    virtual void Signal(uint32_t id, int number) = 0;
  };

  HostAgent(Processes& processes, Nanoseconds now);

  // Takes bytes of orders, in pieces of any size.
  void OnInput(absl::string_view bytes, Nanoseconds now);
  // Called when the connection has ended.
  void OnInputEnd();
  // Queues output of a running process for the launcher, at most kMaxOutput bytes in a call. While
  // TakesOutput() is false, bytes of the stream LOG are dropped, and the function must not be called for the
  // stream OUTPUT.
  void OnOutput(uint32_t id, proto::ProcessOutput::Stream stream, absl::string_view bytes);
  void OnExit(uint32_t id, const ProcessExit& exit);
  // Sends heartbeats, and ends the agent if the launcher is silent. Must be called after all available input
  // was read, so that a stall of this process does not count as silence of the launcher.
  void OnTime(Nanoseconds now);

  // False: too many bytes wait to be sent, so the stream OUTPUT must not be read.
  bool TakesOutput() const { return waiting().size() < kMaxWaiting; }

  // Bytes to be sent to the launcher. Call OnSent with the number of bytes that were sent.
  absl::string_view waiting() const { return absl::string_view(waiting_).substr(sent_); }
  void OnSent(size_t bytes);

  // Set once the agent has to end and kill every process. OK: the connection has ended. DeadlineExceeded: the
  // launcher is silent. InvalidArgument: the launcher violated the protocol.
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
  std::map<uint32_t, size_t> dropped_;  // Dropped bytes of each process's log that no note reports yet.
  std::string waiting_;
  size_t sent_ = 0;  // The number of bytes of waiting_ that were sent.
  Nanoseconds last_heard_;
  Nanoseconds last_beat_;
  std::optional<absl::Status> end_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_HOST_AGENT_H_
