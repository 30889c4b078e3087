#include "deploy/launcher/host_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// An agent, which starts processes on another machine for the launcher, and the launcher's end of the
// connection between the launcher and the agent. The processes are fakes, recorded in a list.
class HostAgentTest : public ::testing::Test, public HostAgent::Processes {
 protected:
  absl::Status Start(const proto::StartProcess& order) override {
    if (order.argument(0) == "missing") return absl::NotFoundError("cannot execute it");
    actions_.push_back(absl::StrCat("start ", order.id(), " ", absl::StrJoin(order.argument(), " ")));
    return absl::OkStatus();
  }
  void Signal(uint32_t id, int number) override {
    actions_.push_back(absl::StrCat("signal ", id, " ", number));
  }

  void Order(const proto::AgentOrder& order) { agent_.OnInput(absl::StrJoin(*FramesOf(order), ""), now_); }
  void OrderStart(uint32_t id, const std::string& verb = "worker") {
    proto::AgentOrder order;
    order.mutable_start()->set_id(id);
    order.mutable_start()->add_argument(verb);
    Order(order);
  }
  void OrderSignal(uint32_t id, int number) {
    proto::AgentOrder order;
    order.mutable_signal()->set_id(id);
    order.mutable_signal()->set_number(number);
    Order(order);
  }
  void Wait(Nanoseconds time) { agent_.OnTime(now_ += time); }

  // Receives, as the launcher, up to `most` of the bytes that the agent has to send.
  size_t Take(size_t most = SIZE_MAX) {
    const std::string bytes(agent_.waiting().substr(0, most));
    agent_.OnSent(bytes.size());
    reports_.Append(bytes);
    return bytes.size();
  }
  // Returns the reports since the last call. Reports about process 1 are "log 1 text", "output 1 text", "exit
  // 1 signal 9" or "exit 1 code 3".
  std::vector<std::string> Reports() {
    Take();
    std::vector<std::string> texts;
    while (true) {
      const auto message = reports_.Next();
      EXPECT_TRUE(message.ok());
      if (!message.ok() || !message->has_value()) return texts;
      proto::AgentReport report;
      EXPECT_TRUE(report.ParseFromString(**message));
      const auto& [output, exited] = std::tie(report.output(), report.exited());
      if (report.has_output()) {
        const bool log = output.stream() == proto::ProcessOutput::LOG;
        texts.push_back(absl::StrCat(log ? "log " : "output ", output.id(), " ", output.data()));
      } else {
        texts.push_back(exited.signal() != 0
                            ? absl::StrCat("exit ", exited.id(), " signal ", exited.signal())
                            : absl::StrCat("exit ", exited.id(), " code ", exited.code(), exited.error()));
      }
    }
  }
  std::string EndReason() const {
    return agent_.end().has_value() ? std::string(agent_.end()->message()) : "none";
  }
  // Adds log lines until the agent takes no more output.
  void FillUp(uint32_t id) {
    while (agent_.TakesOutput()) agent_.OnOutput(id, proto::ProcessOutput::LOG, std::string(60'000, 'x'));
  }

  Nanoseconds now_ = 1000 * kSecond;
  HostAgent agent_{*this, now_};
  FrameReader reports_{kAgentHello};
  std::vector<std::string> actions_;
};

TEST_F(HostAgentTest, StartsAndSignalsProcessesOnRequest) {
  OrderStart(1);
  OrderStart(2, "ps");
  OrderSignal(1, SIGTERM);
  EXPECT_THAT(actions_, ElementsAre("start 1 worker", "start 2 ps", "signal 1 15"));
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(HostAgentTest, ReportsOutputAndThenTheExit) {
  OrderStart(1);
  agent_.OnOutput(1, proto::ProcessOutput::LOG, "ready");
  agent_.OnOutput(1, proto::ProcessOutput::OUTPUT, "{}");
  agent_.OnExit(1, {.signal = SIGKILL});
  EXPECT_THAT(Reports(), ElementsAre("log 1 ready", "output 1 {}", "exit 1 signal 9"));
}

TEST_F(HostAgentTest, ReportsWhyAProcessDidNotStart) {
  OrderStart(1, "missing");
  OrderSignal(1, SIGTERM);
  EXPECT_THAT(Reports(), ElementsAre("exit 1 code 127cannot execute it"));
  EXPECT_THAT(actions_, IsEmpty());
}

TEST_F(HostAgentTest, SignalToAnEndedProcessIsNoError) {
  OrderStart(1);
  agent_.OnExit(1, {});
  OrderSignal(1, SIGTERM);
  EXPECT_THAT(actions_, ElementsAre("start 1 worker"));
  EXPECT_EQ(EndReason(), "none");
}

TEST_F(HostAgentTest, SendsHeartbeatsWhenIdle) {
  Take();
  for (int i = 0; i < 3; ++i) {
    Wait(kAgentBeat);
    EXPECT_EQ(Take(), HeartbeatFrame().size());
  }
}

TEST_F(HostAgentTest, AtMostOneUnsentHeartbeatIsQueued) {
  Take();
  agent_.OnInput(HeartbeatFrame(), now_);
  for (int i = 0; i < 15; ++i) Wait(kAgentBeat);
  EXPECT_EQ(Take(), HeartbeatFrame().size());
}

TEST_F(HostAgentTest, AgentEndsWhenTheLauncherIsSilent) {
  Wait(kAgentSilence);
  EXPECT_EQ(EndReason(), "none");
  Wait(1);
  EXPECT_EQ(EndReason(), "nothing heard from the launcher for 20 s");
}

TEST_F(HostAgentTest, AgentContinuesWhenTheLauncherSendsOnlyHeartbeats) {
  for (int i = 0; i < 100; ++i) {
    agent_.OnInput(HeartbeatFrame(), now_);
    Wait(kAgentSilence);
  }
  EXPECT_EQ(EndReason(), "none");
}

TEST_F(HostAgentTest, EndOfInputEndsAgent) {
  agent_.OnInputEnd();
  ASSERT_TRUE(agent_.end().has_value());
  EXPECT_TRUE(agent_.end()->ok());
}

TEST_F(HostAgentTest, MalformedOrderEndsTheAgentAndLaterOrdersAreIgnored) {
  agent_.OnInput({"\2\0\0\0\xff\xff", 6}, now_);
  EXPECT_EQ(EndReason(), "bytes that are not an order");
  OrderStart(1);
  EXPECT_THAT(actions_, IsEmpty());
}

TEST_F(HostAgentTest, OrderToStartAProcessNumberTwiceIsRefused) {
  OrderStart(2);
  OrderStart(2);
  EXPECT_EQ(EndReason(), "an order to start process 2 after process 2");
}

TEST_F(HostAgentTest, ImpossibleSignalIsRefused) {
  OrderStart(1);
  OrderSignal(1, 0);
  EXPECT_EQ(EndReason(), "an order to send signal 0");
}

TEST_F(HostAgentTest, TooLongInputIsRefused) {
  proto::AgentOrder order;
  order.mutable_start()->set_id(1);
  order.mutable_start()->set_input(std::string(4097, 'x'));
  Order(order);
  EXPECT_EQ(EndReason(), "an order with an input of 4097 bytes, which is more than 4096");
}

TEST_F(HostAgentTest, LogIsDroppedWhileConnectionIsBlocked) {
  OrderStart(1);
  OrderStart(2);
  FillUp(1);
  const size_t full = agent_.waiting().size();
  agent_.OnOutput(1, proto::ProcessOutput::LOG, "12345");
  agent_.OnOutput(2, proto::ProcessOutput::LOG, "123");
  EXPECT_EQ(agent_.waiting().size(), full);
  Reports();
  agent_.OnOutput(1, proto::ProcessOutput::LOG, "again");
  agent_.OnExit(2, {.code = 3});
  constexpr char kMissing[] =
      " bytes are missing here: the launcher did not read fast enough when the process wrote these bytes]\n";
  EXPECT_THAT(Reports(), ElementsAre(absl::StrCat("log 1 \n[5", kMissing), "log 1 again",
                                     absl::StrCat("log 2 \n[3", kMissing), "exit 2 code 3"));
}

TEST_F(HostAgentTest, PartialWritesSendEverything) {
  OrderStart(1);
  FillUp(1);
  agent_.OnExit(1, {});
  while (Take(1000) > 0) {
  }
  EXPECT_EQ(Reports().back(), "exit 1 code 0");
}

}  // namespace
}  // namespace tethys
