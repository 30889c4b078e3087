#include "runtime/cluster/chief_calls.h"

#include <algorithm>
#include <chrono>

#include "runtime/cluster/credentials.h"
#include "runtime/cluster/grpc_status.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/keep_alive.h"

namespace tethys {
namespace {

constexpr char kUnreached[] =
    ": the chief has ended, or a firewall or a missing route separates this machine from the chief "
    "(`tethys hosts check` tests all links)";

// The number of floats in one CheckpointChunk of 1 MiB.
constexpr int64_t kChunkElements = int64_t{1} << 18;

std::chrono::system_clock::time_point After(Nanoseconds timeout) {
  return std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout);
}

std::shared_ptr<grpc::Channel> MakeChannel(const TaskOptions& options) {
  grpc::ChannelArguments arguments;
  // Ignores proxies that the environment names: loopback and cluster addresses are reached directly.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxOrderBytes));
  KeepAlive(arguments);
  const auto credentials = MakeChannelCredentials(options.tls, proto::CHIEF, 0, arguments);
  return grpc::CreateCustomChannel(options.chief_address, credentials, arguments);
}

}  // namespace

ChiefCalls::ChiefCalls(const TaskOptions& options)
    : options_(options), stub_(proto::Chief::NewStub(MakeChannel(options))) {}

absl::Status ChiefCalls::AddHandshake(grpc::ClientContext& context) {
  proto::Challenge challenge;
  absl::Status status = GetChallenge(options_.connect_timeout, /*patient=*/true, challenge);
  // A call that waits for a connection fails with DeadlineExceeded, which does not say why there is no
  // connection. A second call, which does not wait, returns the reason.
  if (absl::IsDeadlineExceeded(status)) status = GetChallenge(kSecond, /*patient=*/false, challenge);
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    status = absl::Status(status.code(), absl::StrCat(status.message(), kUnreached));
  }
  TETHYS_RETURN_IF_ERROR(
      Annotate(status, absl::StrCat("cannot reach the chief at ", options_.chief_address)));
  proto::Handshake handshake;
  handshake.set_job_id(options_.job_id);
  handshake.set_role(options_.role);
  handshake.set_index(options_.index);
  handshake.set_incarnation(options_.incarnation);
  CompleteHandshake(options_.token, challenge.nonce(), handshake);
  context.AddMetadata(kHandshakeMetadataKey, handshake.SerializeAsString());
  return absl::OkStatus();
}

absl::Status ChiefCalls::GetChallenge(Nanoseconds timeout, bool patient, proto::Challenge& challenge) {
  Call call(open_);
  call.context().set_wait_for_ready(patient);
  call.context().set_deadline(After(timeout));
  return FromGrpcStatus(stub_->GetChallenge(&call.context(), proto::ChallengeRequest(), &challenge));
}

absl::Status ChiefCalls::ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out) {
  Call call(open_);
  TETHYS_RETURN_IF_ERROR(AddHandshake(call.context()));
  proto::ReadCheckpointRequest request;
  proto::ArenaRange& range = *request.add_range();
  range.set_slot(slot);
  range.set_begin(begin);
  range.set_count(static_cast<int64_t>(out.size()));
  auto reader = stub_->ReadCheckpoint(&call.context(), request);
  proto::CheckpointChunk chunk;
  int64_t done = 0;
  while (reader->Read(&chunk)) {
    const int64_t count = chunk.range().count();
    if (chunk.range().slot() != slot || chunk.range().begin() != begin + done || count < 0 ||
        count > static_cast<int64_t>(out.size()) - done ||
        static_cast<int64_t>(chunk.data().size()) != count * static_cast<int64_t>(sizeof(float))) {
      call.context().TryCancel();
      reader->Finish();
      return absl::DataLossError("the chief sent a different range of the checkpoint from the one requested");
    }
    std::copy_n(chunk.data().data(), chunk.data().size(), reinterpret_cast<char*>(out.data() + done));
    done += count;
  }
  TETHYS_RETURN_IF_ERROR(Annotate(FromGrpcStatus(reader->Finish()), "reading the checkpoint from the chief"));
  if (done != static_cast<int64_t>(out.size())) {
    return absl::DataLossError(absl::StrCat("the chief sent only ", done, " of ", out.size(), " values"));
  }
  return absl::OkStatus();
}

absl::Status ChiefCalls::ReadDataFile(const std::string& path, int64_t offset, TaskSession::TakeBytes take) {
  Call call(open_);
  TETHYS_RETURN_IF_ERROR(AddHandshake(call.context()));
  proto::ReadDataFileRequest request;
  request.set_path(path);
  request.set_offset(offset);
  auto reader = stub_->ReadDataFile(&call.context(), request);
  proto::DataFileChunk chunk;
  absl::Status taken;
  while (taken.ok() && reader->Read(&chunk)) taken = take(chunk.data());
  if (!taken.ok()) call.context().TryCancel();
  const absl::Status status = FromGrpcStatus(reader->Finish());
  return taken.ok() ? status : taken;
}

absl::Status ChiefCalls::WriteCheckpoint(int64_t save_id, const TaskSession::Source& source) {
  Call call(open_);
  TETHYS_RETURN_IF_ERROR(AddHandshake(call.context()));
  proto::WriteCheckpointReply reply;
  auto writer = stub_->WriteCheckpoint(&call.context(), &reply);
  proto::CheckpointChunk chunk;
  chunk.set_id(save_id);
  bool chief_listens = true;
  const absl::Status source_status = source([&](int slot, int64_t begin, absl::Span<const float> values) {
    for (int64_t at = 0; at < static_cast<int64_t>(values.size()) && chief_listens; at += kChunkElements) {
      const auto part = values.subspan(at, kChunkElements);
      chunk.mutable_range()->set_slot(slot);
      chunk.mutable_range()->set_begin(begin + at);
      chunk.mutable_range()->set_count(static_cast<int64_t>(part.size()));
      chunk.set_data(part.data(), part.size() * sizeof(float));
      // False: the chief has ended the stream; Finish returns the reason.
      chief_listens = writer->Write(chunk);
    }
    return chief_listens ? absl::OkStatus() : absl::AbortedError("the chief ended the stream");
  });
  writer->WritesDone();
  TETHYS_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish()));
  return source_status;
}

}  // namespace tethys
