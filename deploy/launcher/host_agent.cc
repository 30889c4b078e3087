#include "deploy/launcher/host_agent.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace tethys {
namespace {

constexpr int kMaxSignal = 64;
constexpr size_t kMaxInput = 4096;  // The most bytes of SpawnOptions::input.

}  // namespace

HostAgent::HostAgent(Processes& processes, Nanoseconds now)
    : processes_(processes), waiting_(kAgentHello), last_heard_(now), last_beat_(now) {}

void HostAgent::OnInput(absl::string_view bytes, Nanoseconds now) {
  last_heard_ = now;
  orders_.Append(bytes);
  while (!end_.has_value()) {
    const absl::StatusOr<std::optional<std::string>> message = orders_.Next();
    if (!message.ok()) return End(message.status());
    if (!message->has_value()) return;
    Obey(**message);
  }
}

void HostAgent::OnInputEnd() { End(absl::OkStatus()); }

void HostAgent::Obey(const std::string& bytes) {
  proto::AgentOrder order;
  if (!order.ParseFromString(bytes)) return End(absl::InvalidArgumentError("bytes that are not an order"));
  if (order.has_start()) {
    Start(order.start());
  } else if (order.has_signal()) {
    const int number = order.signal().number();
    if (number < 1 || number > kMaxSignal) {
      return End(absl::InvalidArgumentError(absl::StrCat("an order to send signal ", number)));
    }
    if (running_.count(order.signal().id()) > 0) processes_.Signal(order.signal().id(), number);
  }
}

void HostAgent::Start(const proto::StartProcess& order) {
  if (order.id() <= last_id_) {
    return End(absl::InvalidArgumentError(
        absl::StrCat("an order to start process ", order.id(), " after process ", last_id_)));
  }
  if (order.input().size() > kMaxInput) {
    return End(absl::InvalidArgumentError(absl::StrCat("an order with an input of ", order.input().size(),
                                                       " bytes, which is more than ", kMaxInput)));
  }
  last_id_ = order.id();
  const absl::Status started = processes_.Start(order);
  if (!started.ok()) return SendExit(order.id(), {.code = 127}, std::string(started.message()));
  running_.insert(order.id());
}

void HostAgent::OnOutput(uint32_t id, proto::ProcessOutput::Stream stream, absl::string_view bytes) {
  if (stream == proto::ProcessOutput::LOG) {
    if (!TakesOutput()) {
      dropped_[id] += bytes.size();
      return;
    }
    TellDropped(id);
  }
  SendOutput(id, stream, bytes);
}

void HostAgent::OnExit(uint32_t id, const ProcessExit& exit) {
  if (running_.erase(id) == 0) return;
  TellDropped(id);
  SendExit(id, exit, "");
}

void HostAgent::OnTime(Nanoseconds now) {
  if (now - last_heard_ > kAgentSilence) {
    return End(absl::DeadlineExceededError(
        absl::StrFormat("nothing heard from the launcher for %.0f s", ToSeconds(now - last_heard_))));
  }
  if (now - last_beat_ < kAgentBeat) return;
  last_beat_ = now;
  if (waiting().empty()) waiting_ += HeartbeatFrame();
}

void HostAgent::OnSent(size_t bytes) {
  sent_ += bytes;
  if (sent_ < waiting_.size() / 2) return;
  waiting_.erase(0, std::exchange(sent_, 0));
}

void HostAgent::Send(const proto::AgentReport& report) {
  const absl::StatusOr<std::vector<std::string>> frames = FramesOf(report);
  TETHYS_CHECK(frames.ok(), frames.status().message());
  for (const std::string& frame : *frames) waiting_ += frame;
}

void HostAgent::SendOutput(uint32_t id, proto::ProcessOutput::Stream stream, absl::string_view bytes) {
  proto::AgentReport report;
  report.mutable_output()->set_id(id);
  report.mutable_output()->set_stream(stream);
  report.mutable_output()->set_data(std::string(bytes));
  Send(report);
}

void HostAgent::SendExit(uint32_t id, const ProcessExit& exit, const std::string& error) {
  proto::AgentReport report;
  report.mutable_exited()->set_id(id);
  report.mutable_exited()->set_signal(exit.signal);
  report.mutable_exited()->set_code(exit.code);
  report.mutable_exited()->set_error(error);
  report.mutable_exited()->set_reason(exit.reason);
  Send(report);
}

void HostAgent::TellDropped(uint32_t id) {
  const auto found = dropped_.find(id);
  if (found == dropped_.end()) return;
  SendOutput(id, proto::ProcessOutput::LOG,
             absl::StrCat("\n[", found->second,
                          " bytes are missing here: the launcher did not read fast enough when the process "
                          "wrote these bytes]\n"));
  dropped_.erase(found);
}

void HostAgent::End(absl::Status status) {
  if (!end_.has_value()) end_ = std::move(status);
}

}  // namespace tethys
