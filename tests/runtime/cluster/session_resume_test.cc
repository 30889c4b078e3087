// A task's session that is opened again at a successor of the chief, over real sockets in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "proto/chief.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/chief/chief_server.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/task_session.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TaskId kTask = {proto::WORKER, 0};

proto::FromTask Message(int64_t run) {
  proto::FromTask message;
  message.mutable_run_done()->set_run(run);
  return message;
}
proto::ToTask Order(int64_t run) {
  proto::ToTask order;
  order.mutable_run()->set_number(run);
  return order;
}

// Records the numbers of the messages. As a successor, it knows the first `known` messages of a session; -1:
// it knows no session.
class RecordingChief final : public ChiefEvents {
 public:
  explicit RecordingChief(int64_t known = -1) : known_(known) {}

  absl::Status Admit(TaskId, uint32_t) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Resume(TaskId, uint32_t) override {
    if (known_ < 0) return absl::AbortedError("no such session");
    return known_;
  }
  void OnMessage(TaskId, uint32_t, proto::FromTask message) override {
    if (!message.has_run_done()) return;
    MutexLock lock(mu_);
    messages_.push_back(message.run_done().run());
    changed_.NotifyAll();
  }
  void OnGone(TaskId, uint32_t) override {}
  absl::Status WriteChunk(int64_t, int, int64_t, absl::Span<const float>) override {
    return absl::OkStatus();
  }
  absl::Status ReadRange(int, int64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status ReadDataFile(const std::string&, int64_t,
                            absl::FunctionRef<absl::Status(absl::string_view)>) override {
    return absl::OkStatus();
  }

  std::vector<int64_t> WaitForMessages(size_t count) {
    MutexLock lock(mu_);
    while (messages_.size() < count) changed_.Wait(mu_);
    return messages_;
  }

 private:
  const int64_t known_;
  Mutex mu_;
  CondVar changed_;
  std::vector<int64_t> messages_ ABSL_GUARDED_BY(mu_);
};

class SessionResumeTest : public ::testing::Test {
 protected:
  SessionResumeTest() {
    options_.token = token_;
    options_.job_id = "job";
  }

  std::unique_ptr<ChiefServer> Serve(ChiefEvents& chief, bool resumable = true) {
    return ChiefServer::Create({token_, "job", {}}, resumable, clock_, chief);
  }
  // Connects the task to a chief that it may outlive; sends messages 1 to 3 and takes order 1.
  void Begin(bool resumable = true) {
    first_ = Serve(lost_, resumable);
    ASSERT_TRUE(first_->Listen("127.0.0.1:0").ok());
    options_.chief_address = first_->address();
    auto session = TaskSession::Connect(options_, clock_);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    for (const int64_t run : {1, 2, 3}) session_->Send(Message(run));
    lost_.WaitForMessages(begun_ += 3);  // lost_ keeps the messages of all sessions of a test.
    first_->Send(kTask, 1, Order(1));
    ASSERT_EQ(session_->Receive()->run().number(), 1);
  }
  void LoseChief() { first_ = nullptr; }

  const MonotonicClock clock_;
  const JobToken token_ = JobToken::Random();
  TaskOptions options_;
  RecordingChief lost_;
  size_t begun_ = 0;  // The number of messages that lost_ was sent.
  std::unique_ptr<ChiefServer> first_;
  std::unique_ptr<TaskSession> session_;
};

TEST_F(SessionResumeTest, SuccessorGetsTheMessagesAndTheTaskTheOrdersThatTheyLack) {
  Begin();
  LoseChief();
  session_->Send(Message(4));
  RecordingChief chief(/*known=*/2);
  const auto second = Serve(chief);
  second->Send(kTask, 1, Order(1));
  second->Send(kTask, 1, Order(2));
  ASSERT_TRUE(second->Listen(options_.chief_address).ok());
  EXPECT_EQ(session_->Receive()->run().number(), 2);
  EXPECT_THAT(chief.WaitForMessages(2), ElementsAre(3, 4));
  second->Send(kTask, 1, Order(3));
  session_->Send(Message(5));
  EXPECT_EQ(session_->Receive()->run().number(), 3);
  EXPECT_THAT(chief.WaitForMessages(3), ElementsAre(3, 4, 5));
  session_->Close();
}

TEST_F(SessionResumeTest, TaskThatHasReceivedNoOrderGoesOn) {
  first_ = Serve(lost_);
  ASSERT_TRUE(first_->Listen("127.0.0.1:0").ok());
  options_.chief_address = first_->address();
  options_.incarnation = 2;
  auto session = TaskSession::Connect(options_, clock_);
  ASSERT_TRUE(session.ok()) << session.status();
  (*session)->Send(Message(1));
  lost_.WaitForMessages(1);
  LoseChief();
  RecordingChief chief(/*known=*/1);
  const auto second = Serve(chief);
  second->Send(kTask, 1, Order(1));  // To the process that this one replaces.
  ASSERT_TRUE(second->Listen(options_.chief_address).ok());
  (*session)->Send(Message(2));
  EXPECT_THAT(chief.WaitForMessages(1), ElementsAre(2));
  second->Send(kTask, 2, Order(2));
  EXPECT_EQ((*session)->Receive()->run().number(), 2);
}

TEST_F(SessionResumeTest, SuccessorOfASuccessorGoesOn) {
  Begin();
  LoseChief();
  RecordingChief chief(/*known=*/3);
  auto second = Serve(chief);
  second->Send(kTask, 1, Order(1));
  second->Send(kTask, 1, Order(2));
  ASSERT_TRUE(second->Listen(options_.chief_address).ok());
  EXPECT_EQ(session_->Receive()->run().number(), 2);
  second = nullptr;
  RecordingChief last(/*known=*/3);
  const auto third = Serve(last);
  for (const int64_t run : {1, 2, 3}) third->Send(kTask, 1, Order(run));
  third->OrdersReceived(kTask, 1, 1);
  ASSERT_TRUE(third->Listen(options_.chief_address).ok());
  EXPECT_EQ(session_->Receive()->run().number(), 3);
  session_->Send(Message(4));
  EXPECT_THAT(last.WaitForMessages(1), ElementsAre(4));
}

TEST_F(SessionResumeTest, SessionIsLostIfNoSuccessorCanContinueIt) {
  struct Case {
    const char* name;
    int64_t known;         // Messages that the successor knows.
    int64_t orders;        // Orders that the successor has for the task.
    int64_t acknowledged;  // Of these, orders that it believes to have arrived.
    const char* error;
  };
  for (const Case& c : {Case{"it knows no session", -1, 1, 0, "no such session"},
                        Case{"it knows more messages than were sent", 4, 1, 0, "does not know this session"},
                        Case{"it has fewer orders than the task", 3, 0, 0, "cannot continue"},
                        Case{"it has dropped an order that is missing", 3, 3, 2, "cannot continue"}}) {
    Begin();
    LoseChief();
    RecordingChief chief(c.known);
    const auto second = Serve(chief);
    for (int64_t run = 1; run <= c.orders; ++run) second->Send(kTask, 1, Order(run));
    second->OrdersReceived(kTask, 1, c.acknowledged);
    ASSERT_TRUE(second->Listen(options_.chief_address).ok());
    const auto order = session_->Receive();
    ASSERT_FALSE(order.ok()) << c.name;
    EXPECT_THAT(std::string(order.status().message()), HasSubstr(c.error)) << c.name;
  }
}

TEST_F(SessionResumeTest, SessionIsLostIfNoSuccessorComesInTime) {
  options_.chief_silence = kSecond / 2;
  Begin();
  LoseChief();
  const auto order = session_->Receive();
  ASSERT_FALSE(order.ok());
  EXPECT_THAT(std::string(order.status().message()), HasSubstr("no successor"));
}

TEST_F(SessionResumeTest, SessionOfAChiefThatKeepsNoLogIsLostAtOnce) {
  options_.chief_silence = 3600 * kSecond;
  Begin(/*resumable=*/false);
  LoseChief();
  EXPECT_FALSE(session_->Receive().ok());
}

TEST_F(SessionResumeTest, TaskOrderedToStopWaitsForNoSuccessor) {
  options_.chief_silence = 3600 * kSecond;
  Begin();
  proto::ToTask stop;
  stop.mutable_stop()->set_failed(true);
  first_->Send(kTask, 1, stop);
  ASSERT_TRUE(session_->Receive()->has_stop());
  LoseChief();
  EXPECT_FALSE(session_->Receive().ok());
}

TEST_F(SessionResumeTest, ClosingEndsTheWaitForASuccessor) {
  options_.chief_silence = 3600 * kSecond;
  Begin();
  LoseChief();
  session_->Send(Message(4));
  session_->Close();
}

}  // namespace
}  // namespace tethys
