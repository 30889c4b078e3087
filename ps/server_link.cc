#include "ps/server_link.h"

#include <grpcpp/create_channel.h>

#include <algorithm>

#include "runtime/cluster/credentials.h"
#include "runtime/cluster/grpc_status.h"

namespace tethys {
namespace {

// True for errors worth another try: a broken connection, or a server that is not ready. Other errors are
// refusals.
bool IsTransport(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<uint64_t> ParseChallenge(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  proto::Challenge challenge;
  if (!buffer.DumpToSingleSlice(&slice).ok() ||
      !challenge.ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::DataLossError("the challenge cannot be read: the peer is no parameter server of this build");
  }
  return challenge.nonce();
}

}  // namespace

ServerLink::ServerLink(Owner& owner, Mutex& mu, grpc::CompletionQueue& queue,
                       const ParameterClientOptions& options, int server)
    : owner_(owner),
      mu_(mu),
      queue_(queue),
      options_(options),
      server_(server),
      challenged_(Locked(&ServerLink::OnChallenge)),
      started_(Locked(&ServerLink::OnStarted)),
      read_(Locked(&ServerLink::OnRead)),
      written_(Locked(&ServerLink::OnWritten)),
      finished_(Locked(&ServerLink::OnFinished)),
      pause_over_(Locked(&ServerLink::OnPauseOver)) {}

Completion ServerLink::Locked(void (ServerLink::*handler)(bool ok)) {
  return Completion([this, handler](bool ok) {
    MutexLock lock(mu_);
    (this->*handler)(ok);
  });
}

// Makes a new channel for every try: an old channel would keep its back-off.
void ServerLink::Connect() {
  stream_.reset();
  challenge_call_.reset();
  context_ = std::make_unique<grpc::ClientContext>();
  grpc::ChannelArguments arguments = DataChannelArguments();
  const auto credentials = MakeChannelCredentials(options_.tls, proto::PS, server_, arguments);
  stub_ = std::make_unique<grpc::GenericStub>(
      grpc::CreateCustomChannel(options_.servers[server_].address, credentials, arguments));
  finishing_ = redirected_ = false;
  challenge_call_ = stub_->PrepareUnaryCall(context_.get(), kGetChallengeMethod,
                                            MakeMessage(grpc::Slice(), grpc::Slice()), &queue_);
  challenge_call_->StartCall();
  challenge_call_->Finish(&challenge_, &status_, &challenged_);
}

void ServerLink::OnChallenge(bool) {
  if (stopped_) return;
  if (redirected_) return Connect();
  if (!status_.ok()) return TryAgain(FromGrpcStatus(status_));
  const absl::StatusOr<uint64_t> nonce = ParseChallenge(challenge_);
  if (!nonce.ok()) return TryAgain(nonce.status());
  OpenStream(*nonce);
}

void ServerLink::OpenStream(uint64_t nonce) {
  proto::Handshake handshake = options_.handshake;
  CompleteHandshake(options_.token, nonce, handshake);
  challenge_call_.reset();
  context_ = std::make_unique<grpc::ClientContext>();
  context_->AddMetadata(kHandshakeMetadataKey, handshake.SerializeAsString());
  stream_ = stub_->PrepareCall(context_.get(), kStreamMethod, &queue_);
  stream_->StartCall(&started_);
}

void ServerLink::OnStarted(bool ok) {
  if (stopped_) return;
  if (!ok) return FinishWhenIdle();
  open_ = reading_ = true;
  stream_->Read(&incoming_, &read_);
  owner_.OnOpen(server_);
  WriteNext();
}

void ServerLink::OnRead(bool ok) {
  reading_ = false;
  if (stopped_) return;
  if (!ok) {
    open_ = false;
    return FinishWhenIdle();
  }
  absl::Status status = message_.Parse(incoming_);
  incoming_.Clear();
  if (status.ok()) status = owner_.OnAnswer(server_, message_);
  message_.Clear();
  if (!status.ok()) {
    Stop();
    return owner_.OnBroken(server_, status);
  }
  failures_ = 0;
  reading_ = true;
  stream_->Read(&incoming_, &read_);
  WriteNext();
}

void ServerLink::WriteNext() {
  grpc::ByteBuffer message;
  if (!open_ || writing_ || stopped_ || !owner_.NextMessage(server_, &message)) return;
  writing_ = true;
  stream_->Write(message, &written_);
}

void ServerLink::OnWritten(bool ok) {
  writing_ = false;
  if (stopped_) return;
  if (!ok) open_ = false;  // The pending read fails too, and reports why.
  WriteNext();
  FinishWhenIdle();
}

void ServerLink::FinishWhenIdle() {
  if (open_ || reading_ || writing_ || finishing_) return;
  finishing_ = true;
  stream_->Finish(&status_, &finished_);
}

void ServerLink::OnFinished(bool) {
  if (stopped_) return;
  TryAgain(status_.ok() ? absl::UnavailableError("the server has closed the stream")
                        : FromGrpcStatus(status_));
}

void ServerLink::TryAgain(const absl::Status& status) {
  if (redirected_) return Connect();
  if (!IsTransport(status) || ++failures_ > options_.reconnect_tries) {
    stopped_ = true;
    owner_.OnBroken(server_, status);
    return;
  }
  const Nanoseconds pause =
      std::min(options_.reconnect_pause << std::min(failures_ - 1, 20), ParameterClientOptions::kMostPause);
  const gpr_timespec until =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(pause, GPR_TIMESPAN));
  pause_.Set(&queue_, until, &pause_over_);
}

void ServerLink::OnPauseOver(bool ok) {
  if ((ok || redirected_) && !stopped_) Connect();
}

void ServerLink::Redirect() {
  redirected_ = true;
  failures_ = 0;
  // Ends the pause or the present try; OnPauseOver and TryAgain then connect.
  pause_.Cancel();
  if (context_ != nullptr) context_->TryCancel();
}

void ServerLink::Stop() {
  stopped_ = true;
  open_ = false;
  pause_.Cancel();
  if (context_ != nullptr) context_->TryCancel();
}

}  // namespace tethys
