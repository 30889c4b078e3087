// The chief's server over real sockets in one process, with tasks that read orders only when the test makes
// them.
#include "runtime/chief/chief_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "proto/chief.grpc.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/cluster/handshake.h"
#include "runtime/cluster/session_metadata.h"
#include "tests/testing/message_changes.h"

namespace tethys {
namespace {

class CountingChief final : public ChiefEvents {
 public:
  absl::Status Admit(TaskId, uint32_t) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Resume(TaskId, uint32_t) override { return 1; }
  void OnMessage(TaskId task, uint32_t, proto::FromTask) override { Note(task, heard_); }
  void OnGone(TaskId task, uint32_t) override { Note(task, gone_); }
  absl::Status WriteChunk(int64_t, int, int64_t, absl::Span<const float>) override {
    return absl::OkStatus();
  }
  absl::Status ReadRange(int, int64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status ReadDataFile(const std::string&, int64_t,
                            absl::FunctionRef<absl::Status(absl::string_view)> take) override {
    return take("data");
  }

  void WaitUntilHeard(int worker) { WaitFor(worker, heard_); }
  void WaitUntilGone(int worker) { WaitFor(worker, gone_); }

 private:
  void Note(TaskId task, std::set<int>& workers) {
    MutexLock lock(mu_);
    workers.insert(task.index);
    changed_.NotifyAll();
  }
  void WaitFor(int worker, const std::set<int>& workers) {
    MutexLock lock(mu_);
    while (workers.count(worker) == 0) changed_.Wait(mu_);
  }

  Mutex mu_;
  CondVar changed_;
  std::set<int> heard_, gone_;  // Guarded by mu_: only Note and WaitFor access them.
};

// A task's side of its session with the chief, without the thread that reads orders.
class BareTask {
 public:
  // `received`: if set, the task opens its session again, and has received so many orders.
  BareTask(const std::string& address, const JobToken& token, int worker,
           absl::optional<int64_t> received = {})
      : stub_(proto::Chief::NewStub(Connect(address))) {
    grpc::ClientContext challenge;
    proto::Challenge nonce;
    TETHYS_CHECK(stub_->GetChallenge(&challenge, {}, &nonce).ok());
    proto::Handshake handshake;
    handshake.set_job_id("job");
    handshake.set_role(proto::WORKER);
    handshake.set_index(worker);
    handshake.set_incarnation(1);
    CompleteHandshake(token, nonce.nonce(), handshake);
    context_.AddMetadata(kHandshakeMetadataKey, handshake.SerializeAsString());
    if (received.has_value()) context_.AddMetadata(kOrdersReceivedKey, absl::StrCat(*received));
    stream_ = stub_->Session(&context_);
    stream_->WaitForInitialMetadata();
    stream_->Write({});
  }
  ~BareTask() {
    context_.TryCancel();
    proto::ToTask order;
    while (stream_->Read(&order)) {
    }
    stream_->Finish();
  }

  // Makes a separate connection, as a task in another process would.
  static std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  int64_t NextRun() {
    proto::ToTask order;
    return stream_->Read(&order) ? order.run().number() : -1;
  }

 private:
  std::unique_ptr<proto::Chief::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::FromTask, proto::ToTask>> stream_;
};

// Calls ReadDataFile with a handshake made with `token`; returns the status and sets `bytes` to the received
// bytes.
grpc::StatusCode ReadFile(const std::string& address, const JobToken& token, std::string& bytes) {
  const auto stub = proto::Chief::NewStub(BareTask::Connect(address));
  grpc::ClientContext challenge, context;
  proto::Challenge nonce;
  TETHYS_CHECK(stub->GetChallenge(&challenge, {}, &nonce).ok());
  proto::Handshake handshake;
  handshake.set_job_id("job");
  handshake.set_role(proto::WORKER);
  handshake.set_incarnation(1);
  CompleteHandshake(token, nonce.nonce(), handshake);
  context.AddMetadata(kHandshakeMetadataKey, handshake.SerializeAsString());
  const auto reader = stub->ReadDataFile(&context, {});
  proto::DataFileChunk chunk;
  bytes.clear();
  while (reader->Read(&chunk)) bytes += chunk.data();
  return reader->Finish().error_code();
}

class ChiefServerTest : public ::testing::Test {
 protected:
  // Returns once the server has received the task's first message; orders reach the task from then on.
  std::unique_ptr<BareTask> Join(int worker) {
    auto task = std::make_unique<BareTask>(server_->address(), token_, worker);
    chief_.WaitUntilHeard(worker);
    return task;
  }
  // Sends an order of 1 MiB.
  void SendBig(int worker) {
    proto::ToTask order;
    order.mutable_stop()->set_reason(std::string(1 << 20, 'x'));
    server_->Send({proto::WORKER, worker}, 1, order);
  }
  void SendRun(int worker, int64_t number) {
    proto::ToTask order;
    order.mutable_run()->set_number(number);
    server_->Send({proto::WORKER, worker}, 1, order);
  }

  const MonotonicClock clock_ = {};
  const JobToken token_ = JobToken::Random();
  CountingChief chief_;
  std::unique_ptr<ChiefServer> server_ =
      ChiefServer::Start("127.0.0.1:0", {token_, "job", {}}, clock_, chief_).value();
};

TEST_F(ChiefServerTest, TaskThatReadsNothing_DoesNotDelayOrdersToOtherTasks) {
  const auto deaf = Join(0);
  const auto other = Join(1);
  for (int i = 0; i < 64; ++i) SendBig(0);
  SendRun(1, 42);
  EXPECT_EQ(other->NextRun(), 42);
}

TEST_F(ChiefServerTest, TaskWithTooManyUnreadOrders_LosesItsSession) {
  const auto deaf = Join(0);
  for (int i = 0; i < 64; ++i) SendBig(0);
  for (int i = 0; i < ChiefServer::kMostWaiting; ++i) SendRun(0, i);
  chief_.WaitUntilGone(0);
}

TEST_F(ChiefServerTest, CallerWithoutTheTokenGetsNoByteOfAFile) {
  std::string bytes;
  EXPECT_EQ(ReadFile(server_->address(), JobToken::Random(), bytes), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(bytes, "");
  EXPECT_EQ(ReadFile(server_->address(), token_, bytes), grpc::StatusCode::OK);
  EXPECT_EQ(bytes, "data");
}

TEST_F(ChiefServerTest, TaskThatReadsNothing_DoesNotDelayShutdown) {
  const auto deaf = Join(0);
  for (int i = 0; i < 64; ++i) SendBig(0);
  server_.reset();
}

// A chief with three orders to worker 0, of which the worker has confirmed the first, and a successor of the
// chief.
class ServerSuccessorTest : public ChiefServerTest {
 protected:
  ServerSuccessorTest() {
    server_ = ChiefServer::Create(secret_, /*resumable=*/true, clock_, chief_);
    EXPECT_TRUE(server_->Listen("127.0.0.1:0").ok());
    const auto task = Join(0);
    for (int64_t run = 1; run <= 3; ++run) SendRun(0, run);
    server_->OrdersReceived({proto::WORKER, 0}, 1, 1);
    proto::ChiefServerState saved;
    server_->Save(saved);
    EXPECT_TRUE(saved_.ParseFromString(saved.SerializeAsString()));
    server_ = ChiefServer::Create(secret_, /*resumable=*/true, clock_, chief_);
  }
  // The next order that the task gets if it has received `count` orders; -1: it cannot open its session
  // again.
  int64_t NextRunAfter(int64_t count) { return BareTask(server_->address(), token_, 0, count).NextRun(); }

  const JobSecret secret_ = {token_, "job", {}};
  proto::ChiefServerState saved_;
};

TEST_F(ServerSuccessorTest, TaskGetsTheOrdersThatItLacks) {
  ASSERT_TRUE(server_->Restore(saved_).ok());
  SendRun(0, 4);  // The order follows from an input after the state was saved.
  ASSERT_TRUE(server_->Listen("127.0.0.1:0").ok());
  EXPECT_EQ(NextRunAfter(0), -1) << "the first order is no longer there";
  EXPECT_EQ(NextRunAfter(5), -1) << "no fifth order was sent";
  BareTask task(server_->address(), token_, 0, 2);
  EXPECT_EQ(task.NextRun(), 3);
  EXPECT_EQ(task.NextRun(), 4);
}

TEST_F(ServerSuccessorTest, RestoredStateIsSavedAsItWas) {
  ASSERT_TRUE(server_->Restore(saved_).ok());
  proto::ChiefServerState again;
  server_->Save(again);
  EXPECT_EQ(again.SerializeAsString(), saved_.SerializeAsString());
}

TEST_F(ServerSuccessorTest, DamagedStateIsRefusedOrStillUsable) {
  int refused = 0;
  testing::MessageChanges([&] {
    const auto server = ChiefServer::Create(secret_, /*resumable=*/true, clock_, chief_);
    refused += server->Restore(saved_).ok() ? 0 : 1;
    server->OrdersReceived({proto::WORKER, 0}, 1, 2);
  }).Of(saved_);
  EXPECT_GE(refused, 3);
}

}  // namespace
}  // namespace tethys
