#include "runtime/chief/chief_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/chief.grpc.pb.h"
#include "runtime/base/logging.h"
#include "runtime/base/mutex.h"
#include "runtime/base/socket.h"
#include "runtime/base/thread.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/credentials.h"
#include "runtime/cluster/grpc_status.h"
#include "runtime/cluster/keep_alive.h"
#include "runtime/cluster/session_metadata.h"

namespace tethys {
namespace {

constexpr int64_t kChunkElements = int64_t{1} << 18;  // The number of floats in a chunk of 1 MiB.
// The largest message that the server accepts: larger than a checkpoint chunk, and than the step records in
// one message.
constexpr int kMaxMessageBytes = 4 << 20;
constexpr Nanoseconds kNonceLifetime = 10 * kSecond;
// The most streams of saves that are served at the same time. Each stream holds one chunk twice, as a message
// and as floats, so all streams together take 8 MiB.
constexpr int kMaxSaveStreams = 4;

using SessionStream = grpc::ServerReaderWriter<proto::ToTask, proto::FromTask>;

// Queues orders for one task. A thread of this class writes the orders, so that the caller never waits for a
// task that does not read.
class OrderWriter {
 public:
  OrderWriter(grpc::ServerContext& context, SessionStream& stream)
      : context_(context), stream_(stream), peer_(context.peer()) {}
  absl::Status Start() {
    return thread_.Start([this] { Run(); });
  }
  // Drops queued orders, because the task has ended the session. Waits at most a second for the write in
  // progress, then cancels the call.
  ~OrderWriter() {
    {
      MutexLock lock(mu_);
      ending_ = true;
      waiting_.clear();
      changed_.NotifyAll();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      while (thread_.running() && !ended_ && std::chrono::steady_clock::now() < deadline)
        changed_.WaitFor(mu_, kSecond);
      if (thread_.running() && !ended_) context_.TryCancel();
    }
    thread_.Join();
    MutexLock lock(mu_);
    if (deaf_) TETHYS_LOG(Warning, "ended the session of ", peer_, ", because that task reads no orders");
  }

  // May be called on any thread; never blocks.
  void Send(const proto::ToTask& order) {
    MutexLock lock(mu_);
    if (ending_) return;
    if (waiting_.size() >= ChiefServer::kMostWaiting) {
      ending_ = deaf_ = true;
      return context_.TryCancel();
    }
    waiting_.push_back(order);
    changed_.NotifyAll();
  }

 private:
  void Run() {
    proto::ToTask order;
    while (Take(order) && stream_.Write(order)) {
    }
    MutexLock lock(mu_);
    ending_ = ended_ = true;
    changed_.NotifyAll();
  }
  bool Take(proto::ToTask& order) {
    MutexLock lock(mu_);
    while (waiting_.empty() && !ending_) changed_.Wait(mu_);
    if (waiting_.empty()) return false;
    order = std::move(waiting_.front());
    waiting_.pop_front();
    return true;
  }

  grpc::ServerContext& context_;
  SessionStream& stream_;
  // The task's address for the log; a copy, because the context has no address after the end of the call.
  const std::string peer_;

  Mutex mu_;
  CondVar changed_;
  std::deque<proto::ToTask> waiting_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;  // True once the thread no longer uses any member.
  bool deaf_ ABSL_GUARDED_BY(mu_) = false;   // True if the task does not read and too many orders wait.

  Thread thread_;  // Declared last: it uses all of the above.
};

class GrpcChiefServer final : public ChiefServer, private proto::Chief::Service {
 public:
  GrpcChiefServer(const JobSecret& secret, bool resumable, const Clock& clock, ChiefEvents& events)
      : secret_(secret), resumable_(resumable), events_(events), nonces_(clock, kNonceLifetime) {
    expectation_.job_id = secret.job_id;
  }

  ~GrpcChiefServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  absl::Status Listen(const std::string& listen) override {
    {
      MutexLock lock(mu_);
      listening_ = true;
    }
    TETHYS_ASSIGN_OR_RETURN(const HostPort bind, ParseHostPort(listen));
    if (const absl::Status can = CheckListen(bind); !can.ok()) {
      const char* remedy =
          absl::IsAlreadyExists(can) ? ": choose another port (--chief_port) or 0 for any free one" : "";
      return absl::Status(can.code(), absl::StrCat("the chief ", can.message(), remedy));
    }
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(listen, MakeServerCredentials(secret_.tls), &port);
    // If the port could be shared, a second chief could listen on it and take half of the tasks.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    KeepAlive(builder);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::AlreadyExistsError(
          absl::StrCat("the chief cannot listen on ", listen,
                       ": the port is in use or the address is not this machine's; choose "
                       "another port (--chief_port) or 0 for any free one"));
    }
    address_ = HostPortText({bind.host, port});
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }

  void EndCalls(Nanoseconds timeout) override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout));
  }

  void Send(TaskId task, uint32_t incarnation, const proto::ToTask& order) override {
    MutexLock lock(mu_);
    auto it = sessions_.find(task);
    const bool known = it != sessions_.end() && it->second.incarnation == incarnation;
    if (!known && (!resumable_ || listening_)) return;
    if (!known) it = sessions_.insert_or_assign(task, Life{.incarnation = incarnation}).first;
    Life& life = it->second;
    if (resumable_) life.kept.push_back(order);
    if (life.orders != nullptr) life.orders->Send(order);
  }

  void OrdersReceived(TaskId task, uint32_t incarnation, int64_t count) override {
    MutexLock lock(mu_);
    const auto it = sessions_.find(task);
    if (it == sessions_.end() || it->second.incarnation != incarnation) return;
    Life& life = it->second;
    for (; life.dropped < count && !life.kept.empty(); ++life.dropped) life.kept.pop_front();
  }

  void Save(proto::ChiefServerState& state) override {
    MutexLock lock(mu_);
    for (const auto& [task, life] : sessions_) {
      proto::ChiefServerState::Session& saved = *state.add_session();
      Put(task, *saved.mutable_task());
      saved.set_incarnation(life.incarnation);
      saved.set_received(life.dropped);
      saved.mutable_order()->Assign(life.kept.begin(), life.kept.end());
    }
  }

  absl::Status Restore(const proto::ChiefServerState& state) override {
    MutexLock lock(mu_);
    StateCheck check;
    for (const proto::ChiefServerState::Session& saved : state.session()) {
      check.Count("received", saved.received());
      Life life = {.incarnation = saved.incarnation(),
                   .kept = {saved.order().begin(), saved.order().end()},
                   .dropped = saved.received()};
      check.That(sessions_.emplace(TaskOf(saved.task()), std::move(life)).second, "a task has two sessions");
    }
    return Annotate(check.status(), "the orders to the tasks");
  }

 private:
  grpc::Status GetChallenge(grpc::ServerContext*, const proto::ChallengeRequest*,
                            proto::Challenge* reply) override {
    reply->set_nonce(nonces_.Issue());
    return grpc::Status::OK;
  }

  absl::StatusOr<proto::Handshake> Authenticate(const grpc::ServerContext& context) {
    absl::StatusOr<proto::Handshake> handshake = CheckHandshakeOf(context);
    if (!handshake.ok())
      TETHYS_LOG(Warning, "refused ", context.peer(), ": ", StatusText(handshake.status()));
    return handshake;
  }

  absl::StatusOr<proto::Handshake> CheckHandshakeOf(const grpc::ServerContext& context) {
    const absl::Status invalid = absl::UnauthenticatedError("the call carries no valid handshake");
    const auto it = context.client_metadata().find(kHandshakeMetadataKey);
    proto::Handshake handshake;
    if (it == context.client_metadata().end() ||
        !handshake.ParseFromArray(it->second.data(), static_cast<int>(it->second.size()))) {
      return invalid;
    }
    TETHYS_RETURN_IF_ERROR(CheckHandshake(secret_.token, handshake.nonce(), expectation_, handshake));
    if (!nonces_.Redeem(handshake.nonce())) return invalid;
    TETHYS_RETURN_IF_ERROR(CheckCaller(secret_.tls, *context.auth_context(), handshake));
    return handshake;
  }

  grpc::Status Session(grpc::ServerContext* context, SessionStream* stream) override {
    const absl::StatusOr<proto::Handshake> handshake = Authenticate(*context);
    if (!handshake.ok()) return ToGrpcStatus(handshake.status());
    const TaskId task{handshake->role(), handshake->index()};
    const uint32_t incarnation = handshake->incarnation();
    OrderWriter orders(*context, *stream);
    // The writer is started before the task is admitted: if it cannot start, the job must not wait for the
    // task.
    if (absl::Status status = orders.Start(); !status.ok()) return ToGrpcStatus(status);
    const auto resumed = context->client_metadata().find(kOrdersReceivedKey);
    const absl::Status opened =
        resumed == context->client_metadata().end()
            ? OpenSession(task, incarnation, *context, *stream, orders)
            : ResumeSession(task, incarnation, {resumed->second.data(), resumed->second.size()}, *context,
                            *stream, orders);
    if (!opened.ok()) return ToGrpcStatus(opened);
    proto::FromTask message;
    while (stream->Read(&message)) events_.OnMessage(task, incarnation, std::move(message));
    {
      MutexLock lock(mu_);
      const auto it = sessions_.find(task);
      if (it != sessions_.end() && it->second.orders == &orders) sessions_.erase(it);
    }
    events_.OnGone(task, incarnation);
    return grpc::Status::OK;
  }

  absl::Status OpenSession(TaskId task, uint32_t incarnation, grpc::ServerContext& context,
                           SessionStream& stream, OrderWriter& orders) {
    TETHYS_RETURN_IF_ERROR(events_.Admit(task, incarnation));
    context.AddInitialMetadata(kAdmittedKey, "1");
    if (resumable_) context.AddInitialMetadata(kResumableKey, "1");
    stream.SendInitialMetadata();
    MutexLock lock(mu_);
    sessions_[task] = {.orders = &orders, .incarnation = incarnation};
    return absl::OkStatus();
  }

  // `received`: the number of orders that the task has received, in digits.
  absl::Status ResumeSession(TaskId task, uint32_t incarnation, absl::string_view received,
                             grpc::ServerContext& context, SessionStream& stream, OrderWriter& orders) {
    int64_t count = 0;
    if (!absl::SimpleAtoi(received, &count)) {
      return absl::InvalidArgumentError("the number of received orders is no number");
    }
    TETHYS_ASSIGN_OR_RETURN(const int64_t messages, events_.Resume(task, incarnation));
    const absl::Status unknown = absl::AbortedError("the chief cannot continue this session");
    {
      MutexLock lock(mu_);
      // No order was sent to this process of the task yet.
      if (const auto it = sessions_.find(task);
          it == sessions_.end() || it->second.incarnation < incarnation) {
        sessions_.insert_or_assign(task, Life{.incarnation = incarnation});
      }
      if (LifeToResume(task, incarnation, count) == nullptr) return unknown;
    }
    // The metadata are sent before the first order.
    context.AddInitialMetadata(kAdmittedKey, "1");
    context.AddInitialMetadata(kResumableKey, "1");
    context.AddInitialMetadata(kMessagesReceivedKey, absl::StrCat(messages));
    stream.SendInitialMetadata();
    MutexLock lock(mu_);
    Life* const life = LifeToResume(task, incarnation, count);
    if (life == nullptr) return unknown;
    for (size_t i = count - life->dropped; i < life->kept.size(); ++i) orders.Send(life->kept[i]);
    life->orders = &orders;
    return absl::OkStatus();
  }

  grpc::Status ReadCheckpoint(grpc::ServerContext* context, const proto::ReadCheckpointRequest* request,
                              grpc::ServerWriter<proto::CheckpointChunk>* writer) override {
    if (absl::Status status = Authenticate(*context).status(); !status.ok()) return ToGrpcStatus(status);
    std::vector<float> values;
    proto::CheckpointChunk chunk;
    for (const proto::ArenaRange& range : request->range()) {
      if (range.begin() < 0 || range.count() < 0) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "negative range"};
      }
      for (int64_t at = 0; at < range.count(); at += kChunkElements) {
        const int64_t count = std::min(kChunkElements, range.count() - at);
        values.resize(count);
        if (absl::Status status = events_.ReadRange(range.slot(), range.begin() + at, absl::MakeSpan(values));
            !status.ok()) {
          return ToGrpcStatus(status);
        }
        chunk.mutable_range()->set_slot(range.slot());
        chunk.mutable_range()->set_begin(range.begin() + at);
        chunk.mutable_range()->set_count(count);
        chunk.set_data(values.data(), count * sizeof(float));
        if (!writer->Write(chunk)) return {grpc::StatusCode::CANCELLED, "the reader went away"};
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status ReadDataFile(grpc::ServerContext* context, const proto::ReadDataFileRequest* request,
                            grpc::ServerWriter<proto::DataFileChunk>* writer) override {
    if (absl::Status status = Authenticate(*context).status(); !status.ok()) return ToGrpcStatus(status);
    proto::DataFileChunk chunk;
    return ToGrpcStatus(
        events_.ReadDataFile(request->path(), request->offset(), [&](absl::string_view bytes) {
          chunk.set_data(bytes.data(), bytes.size());
          return writer->Write(chunk) ? absl::OkStatus() : absl::CancelledError("the reader went away");
        }));
  }

  grpc::Status WriteCheckpoint(grpc::ServerContext* context,
                               grpc::ServerReader<proto::CheckpointChunk>* reader,
                               proto::WriteCheckpointReply*) override {
    if (absl::Status status = Authenticate(*context).status(); !status.ok()) return ToGrpcStatus(status);
    {
      MutexLock lock(save_mu_);
      while (save_streams_ >= kMaxSaveStreams) save_stream_ended_.Wait(save_mu_);
      ++save_streams_;
    }
    const absl::Status status = TakeChunks(*reader);
    MutexLock lock(save_mu_);
    --save_streams_;
    save_stream_ended_.NotifyOne();
    return ToGrpcStatus(status);
  }

  absl::Status TakeChunks(grpc::ServerReader<proto::CheckpointChunk>& reader) {
    proto::CheckpointChunk chunk;
    std::vector<float> values;  // A copy of the message's bytes, which need not be aligned.
    while (reader.Read(&chunk)) {
      const int64_t count = chunk.range().count();
      if (count < 0 || count > kChunkElements || chunk.range().begin() < 0 ||
          chunk.data().size() != count * sizeof(float)) {
        return absl::InvalidArgumentError(
            "the length of a checkpoint chunk contradicts the range of the chunk");
      }
      values.resize(count);
      std::memcpy(values.data(), chunk.data().data(), chunk.data().size());
      TETHYS_RETURN_IF_ERROR(
          events_.WriteChunk(chunk.id(), chunk.range().slot(), chunk.range().begin(), values));
    }
    return absl::OkStatus();
  }

  struct Life {
    OrderWriter* orders = nullptr;  // Null: the task has not opened its session again yet.
    uint32_t incarnation = 0;
    // If the server is resumable: the orders that the task may not have received, and the number of orders
    // before them.
    std::deque<proto::ToTask> kept = {};
    int64_t dropped = 0;
  };

  // The life whose session a task that has received `count` orders may open again; null: there is none.
  Life* LifeToResume(TaskId task, uint32_t incarnation, int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto it = sessions_.find(task);
    if (it == sessions_.end() || it->second.incarnation != incarnation || it->second.orders != nullptr)
      return nullptr;
    const Life& life = it->second;
    const bool whole =
        count >= life.dropped && count - life.dropped <= static_cast<int64_t>(life.kept.size());
    return whole ? &it->second : nullptr;
  }

  const JobSecret secret_;
  const bool resumable_;
  HandshakeExpectation expectation_;
  ChiefEvents& events_;
  NonceBook nonces_;
  std::string address_;

  Mutex mu_;
  bool listening_ ABSL_GUARDED_BY(mu_) = false;
  std::map<TaskId, Life> sessions_ ABSL_GUARDED_BY(mu_);  // The newest session of each task.

  Mutex save_mu_;
  CondVar save_stream_ended_;
  int save_streams_ ABSL_GUARDED_BY(save_mu_) = 0;

  std::unique_ptr<grpc::Server> server_;  // Declared last: its threads use all of the above.
};

}  // namespace

std::unique_ptr<ChiefServer> ChiefServer::Create(const JobSecret& secret, bool resumable, const Clock& clock,
                                                 ChiefEvents& events) {
  return std::make_unique<GrpcChiefServer>(secret, resumable, clock, events);
}

absl::StatusOr<std::unique_ptr<ChiefServer>> ChiefServer::Start(const std::string& listen,
                                                                const JobSecret& secret, const Clock& clock,
                                                                ChiefEvents& events) {
  std::unique_ptr<ChiefServer> server = Create(secret, /*resumable=*/false, clock, events);
  TETHYS_RETURN_IF_ERROR(server->Listen(listen));
  return server;
}

}  // namespace tethys
