#include "ps/parameter_server.h"

#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/algorithm/container.h"
#include "ps/answer_message.h"
#include "ps/served_store.h"
#include "ps/server_call.h"
#include "ps/server_loop.h"
#include "ps/shard_copies.h"
#include "runtime/base/logging.h"
#include "runtime/base/mutex.h"
#include "runtime/base/socket.h"
#include "runtime/cluster/credentials.h"
#include "runtime/cluster/group_place.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/keep_alive.h"
#include "runtime/cluster/task_id.h"

namespace tethys {
namespace {

// The lifetime of a nonce: long enough for a slow handshake.
constexpr Nanoseconds kChallengeLifetime = 10 * kSecond;

class GrpcParameterServer final : public ParameterServer, public ServerCall::Owner, public StoreActions {
 public:
  explicit GrpcParameterServer(ParameterServerOptions options)
      : options_(std::move(options)), nonces_(*options_.clock, kChallengeLifetime) {}
  ~GrpcParameterServer() override;

  absl::Status Listen();
  std::string address() const override { return address_; }
  absl::Status Configure(const proto::JobPlan& plan, int server_index, uint32_t generation) override;
  absl::Status Serve() override;
  absl::Status Snapshot(ReadShard read) override;
  absl::Status Restore(int64_t version, WriteShard write) override;
  absl::Status Fence(const proto::Fence& fence) override;
  absl::Status Halt() override;
  absl::Status JoinGroup(const proto::Group& group, int64_t version) override;
  absl::Status ExchangeCopies(const proto::Form& form, Nanoseconds patience) override;
  void Interrupt(uint32_t generation) override;
  absl::optional<int64_t> CopyVersion() override;
  bool has_shards() const override {
    return served_ != nullptr && !served_->store->layout().shards().empty();
  }
  int64_t version() const override { return version_.load(std::memory_order_relaxed); }
  proto::AppliedPushes TakeApplied() override;
  std::map<int64_t, int64_t> StalenessHistogram() override;

 private:
  // The functions down to Fail are called on the loop only.
  void AwaitCall();
  void OnArrival(ServerCall& call) override;
  absl::Status OnMessage(ServerCall& call, const ReceivedMessage& message) override;
  void OnEnd(ServerCall& call) override;
  void AnswerChallenge(ServerCall& call);
  absl::StatusOr<TaskId> Authenticate(const ServerCall& call);
  absl::Status OnCopy(ServerCall& call, const ReceivedMessage& message);
  void Reply(const ParameterReply& reply) override;
  void ReplyNorm(const NormReply& reply) override;
  bool HasChecksums() const {
    return !options_.tls.has_value() && (!IsLoopback(address_) || options_.checksums_on_loopback);
  }
  void Record(const proto::AppliedPush& push) override;
  void Copy(Range local, int64_t version) override { copies_->Copy(local, version); }
  void CopyAll(int64_t number, const proto::PushBook& book) override { copies_->CopyAll(number, book); }
  void OnCopied(int64_t version);
  void Fail(const absl::Status& status) override;

  // Runs `function` on the loop and returns its result. Called on any other thread.
  absl::Status OnLoop(absl::FunctionRef<absl::Status()> function) { return loop_->Call(function); }

  const ParameterServerOptions options_;
  std::string address_;
  NonceBook nonces_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<ServerLoop> loop_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int64_t> version_{0};

  Mutex mu_;
  proto::AppliedPushes applied_ ABSL_GUARDED_BY(mu_);

  // Used by the loop's thread only.
  std::map<ServerCall*, std::unique_ptr<ServerCall>> calls_;
  std::vector<ServerCall*> streams_;  // The newest stream of each worker by its rank, or null.
  std::shared_ptr<ServedStore> served_;
  std::unique_ptr<ShardCopies> copies_;  // Null unless servers keep copies; set by Configure.
  uint32_t group_ = 0;  // The generation of the group whose servers exchange copies; 0: none.
  bool serving_ = false;
  bool failed_ = false;
  bool stopping_ = false;
};

// ----------------------------------------------------------------------------- start, end, and the loop

absl::Status GrpcParameterServer::Listen() {
  TETHYS_ASSIGN_OR_RETURN(const HostPort bind, ParseListenAddress(options_.bind_address));
  TETHYS_RETURN_IF_ERROR(CheckListen(bind));
  const std::string address = HostPortText(bind);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.RegisterAsyncGenericService(&service_);
  builder.AddListeningPort(address, MakeServerCredentials(options_.tls), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  KeepAlive(builder);
  loop_ = std::make_unique<ServerLoop>(builder.AddCompletionQueue());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address,
                                               ": the port is in use or the address is not this machine's"));
  }
  address_ = HostPortText({bind.host, port});
  TETHYS_RETURN_IF_ERROR(loop_->Start());
  return OnLoop([this] {
    AwaitCall();
    return absl::OkStatus();
  });
}

GrpcParameterServer::~GrpcParameterServer() {
  if (copies_ != nullptr) copies_->Leave();
  if (loop_ == nullptr) return;
  if (loop_->running()) {
    OnLoop([this] {
      stopping_ = true;
      for (const auto& [call, owned] : calls_) call->Abandon();
      return absl::OkStatus();
    }).IgnoreError();
  }
  if (server_ != nullptr) server_->Shutdown(gpr_now(GPR_CLOCK_REALTIME));
  loop_->End();
}

// ---------------------------------------------------------------------------------------- public methods

absl::Status GrpcParameterServer::Configure(const proto::JobPlan& plan, int server_index,
                                            uint32_t generation) {
  return OnLoop([&]() -> absl::Status {
    if (served_ != nullptr)
      return absl::FailedPreconditionError("the parameter server is configured already");
    TETHYS_ASSIGN_OR_RETURN(served_, ServedStore::Create(plan, server_index, generation, options_.threads));
    streams_.assign(served_->store->workers().size(), nullptr);
    if (!CopiesShards(plan)) return absl::OkStatus();
    ShardCopies::Options copies;
    copies.client.token = options_.token;
    copies.client.tls = options_.tls;
    copies.client.checksums_on_loopback = options_.checksums_on_loopback;
    copies.client.clock = options_.clock;
    copies.on_copied = [this](int64_t version) { loop_->Post([this, version] { OnCopied(version); }); };
    copies.offer = [this] {
      StoreCopy copy;
      OnLoop([&] {
        copy = served_->store->OfferCopy();
        return absl::OkStatus();
      }).IgnoreError();
      return copy;
    };
    copies.on_refused = [this](const absl::Status& status) { loop_->Post([this, status] { Fail(status); }); };
    TETHYS_ASSIGN_OR_RETURN(copies_, ShardCopies::Create(std::move(copies), plan, server_index, served_));
    return absl::OkStatus();
  });
}

absl::Status GrpcParameterServer::Serve() {
  return OnLoop([this] {
    if (served_ == nullptr) return absl::FailedPreconditionError("the parameter server is not configured");
    serving_ = true;
    return absl::OkStatus();
  });
}

absl::Status GrpcParameterServer::Snapshot(ReadShard read) {
  return OnLoop([&] {
    if (served_ == nullptr) return absl::FailedPreconditionError("the parameter server is not configured");
    return served_->store->ForEachShard(
        [&](int slot, int64_t begin, absl::Span<float> values) { return read(slot, begin, values); });
  });
}

absl::Status GrpcParameterServer::Restore(int64_t version, WriteShard write) {
  return OnLoop([&] {
    if (served_ == nullptr) return absl::FailedPreconditionError("the parameter server is not configured");
    TETHYS_RETURN_IF_ERROR(served_->store->SetVersion(version));
    version_ = version;
    return served_->store->ForEachShard(write);
  });
}

absl::Status GrpcParameterServer::Fence(const proto::Fence& fence) {
  int64_t copy = 0;  // It has the last applied push of the earlier incarnation.
  TETHYS_RETURN_IF_ERROR(OnLoop([&]() -> absl::Status {
    if (served_ == nullptr) return absl::FailedPreconditionError("the parameter server is not configured");
    ParameterStore& store = *served_->store;
    copy = store.open_copy();
    const int worker = fence.worker();
    const bool known = worker >= 0 && worker < static_cast<int>(streams_.size());
    if (known && fence.incarnation() > store.incarnation(worker) && streams_[worker] != nullptr) {
      streams_[worker]->End(
          absl::FailedPreconditionError("this worker was declared lost: the job goes on without it"));
      streams_[worker] = nullptr;
    }
    TETHYS_RETURN_IF_ERROR(store.OnFence(fence, *this));
    version_.store(store.version(), std::memory_order_relaxed);
    return absl::OkStatus();
  }));
  return copies_ == nullptr ? absl::OkStatus() : copies_->AwaitCopied(copy);
}

absl::Status GrpcParameterServer::Halt() {
  if (copies_ != nullptr) copies_->Leave();
  return OnLoop([this] {
    serving_ = false;
    group_ = 0;
    // Workers of the next group may call before this server has joined the group. Workers on leases keep
    // their generation.
    if (served_ != nullptr && served_->store->lock_step()) served_->expected.generation = 0;
    for (ServerCall*& stream : streams_) {
      if (stream != nullptr) stream->End(absl::UnavailableError("the group of workers was halted"));
      stream = nullptr;
    }
    for (const auto& [call, owned] : calls_) {
      if (call->from_server()) call->End(absl::UnavailableError("the group of servers was halted"));
    }
    return absl::OkStatus();
  });
}

absl::Status GrpcParameterServer::JoinGroup(const proto::Group& group, int64_t version) {
  return OnLoop([&]() -> absl::Status {
    if (served_ == nullptr) return absl::FailedPreconditionError("the parameter server is not configured");
    if (!served_->store->lock_step()) return absl::OkStatus();
    TETHYS_RETURN_IF_ERROR(served_->store->StepBack(version, group.generation(), WorkersIn(group)));
    version_ = version;
    if (copies_ != nullptr) copies_->StepBack(version);
    served_->expected.generation = group.generation();
    streams_.assign(served_->store->workers().size(), nullptr);
    return absl::OkStatus();
  });
}

absl::Status GrpcParameterServer::ExchangeCopies(const proto::Form& form, Nanoseconds patience) {
  if (copies_ == nullptr) return absl::OkStatus();
  const bool restores = has_shards() && absl::c_linear_search(form.restored(), copies_->server());
  TETHYS_RETURN_IF_ERROR(OnLoop([&] {
    group_ = form.group().generation();
    return restores ? copies_->ExpectShards() : absl::OkStatus();
  }));
  TETHYS_RETURN_IF_ERROR(copies_->Join(form, restores, patience));
  return OnLoop([&] {
    version_ = served_->store->version();
    if (!restores) return absl::OkStatus();
    MutexLock lock(mu_);
    for (const proto::AppliedPush& push : served_->store->push_log().pushes()) *applied_.add_push() = push;
    return absl::OkStatus();
  });
}

void GrpcParameterServer::OnCopied(int64_t version) {
  ParameterStore& store = *served_->store;
  store.OnCopied(version, *this);
  copies_->NoteCopied(version);
  version_.store(store.version(), std::memory_order_relaxed);
}

void GrpcParameterServer::Interrupt(uint32_t generation) {
  if (copies_ != nullptr) copies_->Interrupt(generation);
}

absl::optional<int64_t> GrpcParameterServer::CopyVersion() {
  absl::optional<int64_t> version;
  OnLoop([&] {
    if (copies_ != nullptr) version = copies_->kept_version();
    return absl::OkStatus();
  }).IgnoreError();
  return version;
}

proto::AppliedPushes GrpcParameterServer::TakeApplied() {
  proto::AppliedPushes taken;
  MutexLock lock(mu_);
  taken.Swap(&applied_);
  return taken;
}

std::map<int64_t, int64_t> GrpcParameterServer::StalenessHistogram() {
  std::map<int64_t, int64_t> histogram;
  OnLoop([&] {
    if (served_ != nullptr) histogram = served_->store->staleness_histogram();
    return absl::OkStatus();
  }).IgnoreError();
  return histogram;
}

// ----------------------------------------------------------------------------------------------- calls

void GrpcParameterServer::AwaitCall() {
  if (stopping_) return;
  auto call = std::make_unique<ServerCall>(*this, service_, loop_->queue());
  calls_[call.get()] = std::move(call);
}

void GrpcParameterServer::OnArrival(ServerCall& call) {
  AwaitCall();
  if (call.method() == kGetChallengeMethod) {
    AnswerChallenge(call);
    return;
  }
  if (call.method() != kStreamMethod) {
    call.End(absl::UnimplementedError(absl::StrCat("a parameter server has no method ", call.method())));
    return;
  }
  const absl::StatusOr<TaskId> caller = Authenticate(call);
  if (!caller.ok()) {
    // A caller that calls before this server has joined the group tries again.
    if (!absl::IsUnavailable(caller.status())) {
      TETHYS_LOG(Warning, "refused ", call.peer(), ": ", StatusText(caller.status()));
    }
    call.End(caller.status());
    return;
  }
  const int index = caller->index;
  if (caller->role == proto::PS) return call.Receive(index, true);
  const int rank = served_->RankOf(index);
  if (streams_[rank] != nullptr) {
    streams_[rank]->End(absl::AbortedError("a newer connection of this worker has taken over"));
  }
  streams_[rank] = &call;
  call.Receive(rank);
}

void GrpcParameterServer::AnswerChallenge(ServerCall& call) {
  proto::Challenge challenge;
  challenge.set_nonce(nonces_.Issue());
  call.AnswerAndEnd(MakeMessage(grpc::Slice(challenge.SerializeAsString()), grpc::Slice()));
}

// Returns the caller: a worker of the group, or a server that may send copies.
absl::StatusOr<TaskId> GrpcParameterServer::Authenticate(const ServerCall& call) {
  proto::Handshake handshake;
  const absl::Status invalid =
      absl::UnauthenticatedError("no valid handshake: this port serves the workers of one job");
  if (!handshake.ParseFromString(call.Metadata(kHandshakeMetadataKey))) return invalid;
  HandshakeExpectation expected;
  expected.job_id = options_.job_id;
  if (served_ != nullptr) expected = served_->expected;
  if (handshake.role() == proto::PS) expected.generation = group_;
  TETHYS_RETURN_IF_ERROR(CheckHandshake(options_.token, handshake.nonce(), expected, handshake));
  if (!nonces_.Redeem(handshake.nonce())) return invalid;
  TETHYS_RETURN_IF_ERROR(CheckCaller(options_.tls, call.auth_context(), handshake));
  const TaskId caller = {handshake.role(), handshake.index()};
  const bool copies = caller.role == proto::PS && copies_ != nullptr && copies_->Expects(caller.index);
  if (copies ? group_ == 0 : !serving_) {
    return absl::UnavailableError("the parameter server is not ready yet: try again");
  }
  if (copies) return caller;
  const int rank = handshake.role() == proto::WORKER ? served_->RankOf(handshake.index()) : -1;
  if (rank < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("this server serves the workers of its group only, but the caller is ",
                     TaskName(handshake.role(), handshake.index())));
  }
  if (handshake.incarnation() < served_->store->incarnation(rank)) {
    return absl::FailedPreconditionError("this worker was declared lost: the job goes on without it");
  }
  return caller;
}

void GrpcParameterServer::OnEnd(ServerCall& call) {
  for (ServerCall*& stream : streams_) {
    if (stream == &call) stream = nullptr;
  }
  calls_.erase(&call);
}

absl::Status GrpcParameterServer::OnCopy(ServerCall& call, const ReceivedMessage& message) {
  const Frame& frame = message.frame();
  if (group_ == 0 || frame.generation != group_) {
    return absl::UnavailableError(absl::StrCat("the group of generation ", frame.generation, " was halted"));
  }
  TETHYS_ASSIGN_OR_RETURN(absl::optional<Frame> answer, copies_->Take(call.rank(), frame, message.payload()));
  if (!answer.has_value()) return absl::OkStatus();
  call.Send(AnswerMessage(*answer));
  return absl::OkStatus();
}

absl::Status GrpcParameterServer::OnMessage(ServerCall& call, const ReceivedMessage& message) {
  if (call.from_server()) return OnCopy(call, message);
  const Frame& frame = message.frame();
  if (static_cast<int64_t>(frame.rank) != call.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("this is the stream of the worker of rank ", call.rank(),
                                                   ", but the frame is of rank ", frame.rank));
  }
  absl::Status status;
  if (frame.kind == FrameKind::kPush) {
    status = served_->store->OnPush(frame, message.payload(), *this);
  } else if (frame.kind == FrameKind::kPull) {
    status = served_->store->OnPull(frame, *this);
  } else if (frame.kind == FrameKind::kNorm || frame.kind == FrameKind::kMeasure ||
             frame.kind == FrameKind::kCommit) {
    status = served_->store->OnExchange(frame, message.payload(), *this);
  } else {
    status = absl::InvalidArgumentError(absl::StrCat("expected a push or a pull: ", FrameText(frame)));
  }
  version_.store(served_->store->version(), std::memory_order_relaxed);
  return status;
}

void GrpcParameterServer::Reply(const ParameterReply& reply) {
  // Stored before the answer is sent, so that version() is at least the version of every answer received.
  version_.store(served_->store->version(), std::memory_order_relaxed);
  // A worker whose stream is broken repeats its push or pull on a new stream.
  if (streams_[reply.worker] == nullptr) return;
  streams_[reply.worker]->Send(AnswerMessage(reply, served_, served_->expected.generation, HasChecksums()));
}

void GrpcParameterServer::ReplyNorm(const NormReply& reply) {
  if (streams_[reply.worker] == nullptr) return;
  streams_[reply.worker]->Send(AnswerMessage(reply, served_->expected.generation, HasChecksums()));
}

void GrpcParameterServer::Record(const proto::AppliedPush& push) {
  bool full = false;
  {
    MutexLock lock(mu_);
    *applied_.add_push() = push;
    full = applied_.push_size() > kMaxApplied;
  }
  if (!full) return;
  Fail(absl::ResourceExhaustedError(
      absl::StrCat("more than ", kMaxApplied,
                   " applied pushes wait for the chief's journal: the chief has stopped reading them")));
}

void GrpcParameterServer::Fail(const absl::Status& status) {
  if (failed_) return;
  failed_ = true;
  TETHYS_LOG(Error, StatusText(status));
  if (options_.on_fatal) options_.on_fatal(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Start(ParameterServerOptions options) {
  TETHYS_CHECK(options.clock != nullptr);
  auto server = std::make_unique<GrpcParameterServer>(std::move(options));
  TETHYS_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<ParameterServer>(std::move(server));
}

}  // namespace tethys
