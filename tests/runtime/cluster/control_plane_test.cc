// The chief's server and the tasks' sessions, over real sockets in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/chief/chief_server.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/task_session.h"
#include "tests/testing/certificates.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// Records messages and answers none of them. While frozen, it takes no messages either, like a stopped
// process.
class RecordingChief final : public ChiefEvents {
 public:
  void Freeze(bool frozen = true) {
    MutexLock lock(mu_);
    frozen_ = frozen;
    changed_.NotifyAll();
  }

  absl::Status Admit(TaskId task, uint32_t) override {
    AwaitThaw();
    return task.index == 7 ? absl::AlreadyExistsError("worker 7 has joined already") : absl::OkStatus();
  }
  void OnMessage(TaskId, uint32_t, proto::FromTask message) override {
    AwaitThaw();
    MutexLock lock(mu_);
    messages_.push_back(message.ShortDebugString());
    changed_.NotifyAll();
  }
  void OnGone(TaskId, uint32_t) override {
    MutexLock lock(mu_);
    messages_.push_back("gone");
    changed_.NotifyAll();
  }
  absl::Status WriteChunk(int64_t save_id, int slot, int64_t begin, absl::Span<const float> values) override {
    AwaitThaw();
    if (save_id != 1) return absl::FailedPreconditionError("no such save");
    MutexLock lock(mu_);
    for (const float value : values) written_[{slot, begin++}] = value;
    return absl::OkStatus();
  }
  absl::Status ReadRange(int slot, int64_t begin, absl::Span<float> out) override {
    AwaitThaw();
    if (slot > 1) return absl::InvalidArgumentError("no such slot");
    for (float& value : out) value = static_cast<float>(slot * 1'000'000 + begin++);
    return absl::OkStatus();
  }

  // The file "data" has kFileBytes bytes. The first stream that reads the file breaks after one chunk.
  static constexpr int64_t kFileBytes = 3'000'000;
  static char ByteOfFile(int64_t at) { return static_cast<char>(at % 251); }
  absl::Status ReadDataFile(const std::string& path, int64_t offset,
                            absl::FunctionRef<absl::Status(absl::string_view)> take) override {
    if (path != "data") return absl::PermissionDeniedError("no file of this job");
    while (offset < kFileBytes) {
      std::string chunk(std::min<int64_t>(1 << 20, kFileBytes - offset), '\0');
      for (char& byte : chunk) byte = ByteOfFile(offset++);
      TETHYS_RETURN_IF_ERROR(take(chunk));
      if (!broken_.exchange(true)) return absl::UnavailableError("the stream broke");
    }
    return absl::OkStatus();
  }

  // Waits until a message that contains `text` has been received.
  void WaitFor(const std::string& text) {
    MutexLock lock(mu_);
    while (true) {
      for (const std::string& message : messages_) {
        if (message.find(text) != std::string::npos) return;
      }
      changed_.Wait(mu_);
    }
  }
  std::map<std::pair<int, int64_t>, float> written() {
    MutexLock lock(mu_);
    return written_;
  }

 private:
  void AwaitThaw() {
    MutexLock lock(mu_);
    while (frozen_) changed_.Wait(mu_);
  }

  Mutex mu_;
  CondVar changed_;
  bool frozen_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> broken_{false};
  std::vector<std::string> messages_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<int, int64_t>, float> written_ ABSL_GUARDED_BY(mu_);
};

class ControlPlaneTest : public ::testing::Test {
 protected:
  explicit ControlPlaneTest(const absl::optional<TlsIdentity>& tls = absl::nullopt) {
    auto server = ChiefServer::Start("127.0.0.1:0", {token_, "job", tls}, clock_, chief_);
    TETHYS_CHECK(server.ok(), server.status().message());
    server_ = *std::move(server);
    options_.chief_address = server_->address();
    options_.token = token_;
    options_.job_id = "job";
  }
  std::unique_ptr<TaskSession> Join() {
    auto session = TaskSession::Connect(options_, clock_);
    TETHYS_CHECK(session.ok(), session.status().message());
    return *std::move(session);
  }
  absl::Status Refusal() { return TaskSession::Connect(options_, clock_).status(); }

  const MonotonicClock clock_;
  const JobToken token_ = JobToken::Random();
  RecordingChief chief_;
  TaskOptions options_;
  std::unique_ptr<ChiefServer> server_;
};

TEST_F(ControlPlaneTest, MessagesReachTheChiefAndOrdersReachTheTask) {
  const auto session = Join();
  proto::FromTask message;
  message.mutable_run_done()->set_run(42);
  session->Send(message);
  chief_.WaitFor("run: 42");
  proto::ToTask order;
  order.mutable_run()->set_number(43);
  server_->Send({proto::WORKER, 0}, options_.incarnation, order);
  EXPECT_EQ(session->Receive()->run().number(), 43);
  session->Close();
  chief_.WaitFor("gone");
}

TEST_F(ControlPlaneTest, PlanOfTheLargestPermittedSizeReachesTheTask) {
  const auto session = Join();
  proto::FromTask message;
  message.mutable_join();
  session->Send(message);
  chief_.WaitFor("join");
  proto::ToTask order;
  proto::JobPlan& plan = *order.mutable_setup()->mutable_plan();
  plan.set_job_id(std::string(kMaxPlanBytes - 16, 'x'));
  ASSERT_TRUE(CheckPlanSize(plan).ok());
  server_->Send({proto::WORKER, 0}, options_.incarnation, order);
  const auto received = session->Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->setup().plan().job_id().size(), plan.job_id().size());
  plan.mutable_job()->set_name(std::string(16, 'x'));
  EXPECT_THAT(std::string(CheckPlanSize(plan).message()), HasSubstr("fewer shards"));
}

TEST_F(ControlPlaneTest, OrderForAnEarlierProcessOfATaskIsDropped) {
  const auto earlier = Join();
  options_.incarnation = 2;
  const auto later = Join();
  proto::FromTask message;
  message.mutable_join();
  later->Send(message);
  chief_.WaitFor("join");
  proto::ToTask order;
  for (const uint32_t incarnation : {1, 2}) {
    order.mutable_run()->set_number(incarnation);
    server_->Send({proto::WORKER, 0}, incarnation, order);
  }
  EXPECT_EQ(later->Receive()->run().number(), 2);
}

TEST_F(ControlPlaneTest, HeartbeatOnRequestSendsTheMessagesOfTheFillFunctionAtOnce) {
  const auto session = Join();
  session->StartBeating(3600 * kSecond, [](proto::Heartbeat&, std::vector<proto::FromTask>& before) {
    before.emplace_back().mutable_steps()->add_record()->set_step(5);
  });
  session->Beat();
  proto::FromTask message;
  message.mutable_run_done();
  session->Send(message);
  chief_.WaitFor("step: 5");
}

TEST_F(ControlPlaneTest, RefusedTaskGetsTheReason) {
  options_.token = JobToken::Random();
  EXPECT_TRUE(absl::IsUnauthenticated(Refusal())) << Refusal();
  options_.token = token_;
  options_.job_id = "other";
  EXPECT_THAT(std::string(Refusal().message()), HasSubstr("another job"));
  options_.job_id = "job";
  options_.index = 7;
  EXPECT_TRUE(absl::IsAlreadyExists(Refusal())) << Refusal();
}

TEST_F(ControlPlaneTest, ReceiveFailsOnceTheChiefHasEnded) {
  const auto session = Join();
  server_ = nullptr;
  const auto order = session->Receive();
  EXPECT_TRUE(absl::IsUnavailable(order.status()) || absl::IsCancelled(order.status())) << order.status();
  EXPECT_THAT(std::string(order.status().message()), HasSubstr("lost the chief"));
}

TEST_F(ControlPlaneTest, CheckpointsAreReadAndWrittenInChunks) {
  const auto session = Join();
  const int64_t count = (int64_t{1} << 18) + 1000;  // The values take more than one chunk.
  std::vector<float> values(count);
  ASSERT_TRUE(session->ReadCheckpoint(1, 16, absl::MakeSpan(values)).ok());
  EXPECT_EQ(values.front(), 1'000'016);
  EXPECT_EQ(values.back(), 1'000'016 + count - 1);
  ASSERT_TRUE(
      session->WriteCheckpoint(1, [&](TaskSession::WriteRange write) { return write(0, 32, values); }).ok());
  const auto written = chief_.written();
  EXPECT_EQ(static_cast<int64_t>(written.size()), count);
  EXPECT_EQ(written.at({0, 32}), values.front());
  EXPECT_EQ(written.at({0, 32 + count - 1}), values.back());
}

TEST_F(ControlPlaneTest, FilesOfTheChiefCanBeReadFromAnOffset) {
  const auto session = Join();
  std::string content;
  const auto take = [&](absl::string_view bytes) {
    content.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsUnavailable(session->ReadDataFile("data", 0, take)));
  ASSERT_EQ(content.size(), 1 << 20);
  ASSERT_TRUE(session->ReadDataFile("data", 1 << 20, take).ok());
  ASSERT_EQ(static_cast<int64_t>(content.size()), RecordingChief::kFileBytes);
  for (size_t i = 0; i < content.size(); ++i) ASSERT_EQ(content[i], RecordingChief::ByteOfFile(i)) << i;
  const auto refuse = [](absl::string_view) { return absl::ResourceExhaustedError("full"); };
  EXPECT_TRUE(absl::IsResourceExhausted(session->ReadDataFile("data", 0, refuse)));
}

TEST_F(ControlPlaneTest, FileThatTheJobDoesNotNameIsRefused) {
  const auto session = Join();
  const auto take = [](absl::string_view) -> absl::Status { return absl::InternalError("bytes came"); };
  EXPECT_TRUE(absl::IsPermissionDenied(session->ReadDataFile("../secret", 0, take)));
}

TEST_F(ControlPlaneTest, RefusedReadOrWriteLeavesTheSessionUsable) {
  const auto session = Join();
  std::vector<float> values(8);
  EXPECT_TRUE(absl::IsInvalidArgument(session->ReadCheckpoint(2, 0, absl::MakeSpan(values))));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      session->WriteCheckpoint(9, [&](TaskSession::WriteRange write) { return write(0, 0, values); })));
  EXPECT_TRUE(session->ReadCheckpoint(0, 0, absl::MakeSpan(values)).ok());
}

TEST_F(ControlPlaneTest, PortInUseIsRefused) {
  const auto second = ChiefServer::Start(server_->address(), {token_, "job"}, clock_, chief_);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address()));
}

// ---------------------------------------------------------------------------------------- a lost chief

class LostChiefTest : public ControlPlaneTest {
 protected:
  LostChiefTest() {
    options_.chief_silence = 200 * kMillisecond;
    options_.chief_grace = 3600 * kSecond;
  }
  ~LostChiefTest() override { chief_.Freeze(false); }
  std::unique_ptr<TaskSession> JoinAndBeat(TaskSession::Fill fill = [](proto::Heartbeat&,
                                                                       std::vector<proto::FromTask>&) {}) {
    auto session = Join();
    chief_.Freeze();
    session->StartBeating(kMillisecond, std::move(fill));
    return session;
  }
};

TEST_F(LostChiefTest, ChiefThatTakesNoMessages_EndsTheSession) {
  // Each heartbeat brings 1 MiB, more than the connection's window, so that the writer waits for the chief.
  const auto session = JoinAndBeat([](proto::Heartbeat&, std::vector<proto::FromTask>& before) {
    before.emplace_back().mutable_join()->set_host(std::string(1 << 20, 'x'));
  });
  const auto order = session->Receive();
  EXPECT_TRUE(absl::IsUnavailable(order.status())) << order.status();
  EXPECT_THAT(std::string(order.status().message()), HasSubstr("nothing was heard from the chief for 0.2 s"));
  EXPECT_TRUE(absl::IsUnavailable(session->status()));
  session->Close();
}

TEST_F(LostChiefTest, ChiefThatStopsDuringACheckpoint_FailsItsReadAndWrite) {
  const auto session = JoinAndBeat();
  std::vector<float> values(1 << 18);
  EXPECT_FALSE(session
                   ->WriteCheckpoint(1,
                                     [&](TaskSession::WriteRange write) {
                                       while (true) TETHYS_RETURN_IF_ERROR(write(0, 0, values));
                                     })
                   .ok());
  EXPECT_FALSE(session->ReadCheckpoint(1, 0, absl::MakeSpan(values)).ok());
}

TEST_F(LostChiefTest, CheckpointReadInProgressWhenTheChiefIsLost_IsCancelled) {
  const auto session = JoinAndBeat();
  std::vector<float> values(1 << 18);
  EXPECT_TRUE(absl::IsCancelled(session->ReadCheckpoint(1, 0, absl::MakeSpan(values))));
}

TEST_F(LostChiefTest, ErrorOfTheConnectTimeout_NamesTheChiefThatDidNotAnswer) {
  chief_.Freeze();
  options_.connect_timeout = kSecond;
  const absl::Status status = Refusal();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(options_.chief_address));
}

TEST_F(LostChiefTest, ProcessThatOutlivesTheGracePeriod_IsEnded) {
  options_.chief_grace = kMillisecond;
  Mutex mu;
  CondVar changed;
  bool ended = false;
  const auto session = TaskSession::Connect(options_, clock_, [&] {
    MutexLock lock(mu);
    ended = true;
    changed.NotifyAll();
  });
  server_ = nullptr;
  MutexLock lock(mu);
  while (!ended) changed.Wait(mu);
}

TEST_F(LostChiefTest, TaskOrderedToStop_IsNotEndedWhenTheChiefIsGone) {
  options_.chief_grace = kMillisecond;
  options_.chief_silence = 3600 * kSecond;
  const auto session = TaskSession::Connect(options_, clock_, [] { FAIL() << "it was ended"; });
  proto::FromTask message;
  message.mutable_join();
  (*session)->Send(message);
  chief_.WaitFor("join");
  proto::ToTask order;
  order.mutable_stop()->set_failed(false);
  server_->Send({proto::WORKER, 0}, options_.incarnation, order);
  ASSERT_TRUE((*session)->Receive()->has_stop());
  server_ = nullptr;
  EXPECT_FALSE((*session)->Receive().ok());
  EXPECT_TRUE((*session)->status().ok());
}

// ------------------------------------------------------------------------------------------- mutual TLS

class ControlPlaneTlsTest : public ControlPlaneTest {
 protected:
  explicit ControlPlaneTlsTest(std::unique_ptr<JobAuthority> authority = testing::MakeAuthority(),
                               proto::Role server = proto::CHIEF)
      : ControlPlaneTest(testing::IdentityOf(*authority, server, 0)), authority_(std::move(authority)) {
    options_.tls = testing::IdentityOf(*authority_, proto::WORKER, 0);
    options_.connect_timeout = 300 * kMillisecond;
  }
  // Expects that the task cannot join, with `reason` in the error.
  void ExpectRefused(const std::string& reason) {
    const absl::Status status = Refusal();
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason)) << status;
  }

  const std::unique_ptr<JobAuthority> authority_;
};

TEST_F(ControlPlaneTlsTest, MessagesOfATaskWithACertificateReachTheChief) {
  options_.connect_timeout = 30 * kSecond;
  const auto session = Join();
  proto::FromTask message;
  message.mutable_run_done()->set_run(42);
  session->Send(message);
  chief_.WaitFor("run: 42");
}

TEST_F(ControlPlaneTlsTest, RefusesACallerWithoutTls) {
  options_.tls = absl::nullopt;
  ExpectRefused("cannot reach the chief");
}

TEST_F(ControlPlaneTlsTest, RefusesACertificateOfAnotherJob) {
  const TlsIdentity other = testing::IdentityOf(*testing::MakeAuthority(), proto::WORKER, 0);
  options_.tls->certificate = other.certificate;  // The task trusts the chief; the chief refuses the task.
  options_.tls->key = other.key;
  ExpectRefused("cannot reach the chief");
  options_.tls = other;
  ExpectRefused("cannot reach the chief");
}

TEST_F(ControlPlaneTlsTest, RefusesACertificateOfAnotherRoleOrIndex) {
  options_.connect_timeout = 30 * kSecond;
  options_.tls = testing::IdentityOf(*authority_, proto::PS, 0);
  ExpectRefused("says that it is worker-0.tethys, but its certificate is of ps-0.tethys");
  options_.tls = testing::IdentityOf(*authority_, proto::WORKER, 1);
  ExpectRefused("says that it is worker-0.tethys, but its certificate is of worker-1.tethys");
}

class ExpiredCertificatesTest : public ControlPlaneTlsTest {
 protected:
  ExpiredCertificatesTest() : ControlPlaneTlsTest(testing::MakeAuthority(testing::kLongAgo)) {}
};

TEST_F(ExpiredCertificatesTest, ExpiredCertificatesAreRefused) { ExpectRefused("cannot reach the chief"); }

class ImpostorChiefTest : public ControlPlaneTlsTest {
 protected:
  ImpostorChiefTest() : ControlPlaneTlsTest(testing::MakeAuthority(), proto::WORKER) {}
};

TEST_F(ImpostorChiefTest, ChiefWithAWorkersCertificateIsRefused) { ExpectRefused("cannot reach the chief"); }

}  // namespace
}  // namespace tethys
