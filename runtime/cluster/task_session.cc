#include "runtime/cluster/task_session.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "proto/chief.grpc.pb.h"
#include "runtime/base/logging.h"
#include "runtime/base/mutex.h"
#include "runtime/base/process.h"
#include "runtime/cluster/chief_clock.h"
#include "runtime/cluster/credentials.h"
#include "runtime/cluster/grpc_status.h"

namespace tethys {
namespace {

// Elements of one CheckpointChunk: 1 MiB.
constexpr int64_t kChunkElements = int64_t{1} << 18;

std::chrono::system_clock::time_point After(Nanoseconds timeout) {
  return std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout);
}

std::shared_ptr<grpc::Channel> MakeChannel(const TaskOptions& options) {
  grpc::ChannelArguments arguments;
  // Loopback and cluster addresses: never by way of a proxy that the environment names.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  const auto credentials = MakeChannelCredentials(options.tls, proto::CHIEF, 0, arguments);
  return grpc::CreateCustomChannel(options.chief_address, credentials, arguments);
}

class GrpcTaskSession final : public TaskSession {
 public:
  GrpcTaskSession(const TaskOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        stub_(proto::Chief::NewStub(MakeChannel(options))),
        last_heard_(clock.Now()) {}

  ~GrpcTaskSession() override { Close(); }

  absl::Status Open() {
    TETHYS_RETURN_IF_ERROR(AddHandshake(context_, options_.connect_timeout));
    stream_ = stub_->Session(&context_);
    // The chief answers an admitted session with its metadata at once, a refused one with a status.
    stream_->WaitForInitialMetadata();
    admitted_ = context_.GetServerInitialMetadata().count("tethys-admitted") > 0;
    if (!admitted_) {
      stream_->WritesDone();
      const absl::Status status = FromGrpcStatus(stream_->Finish());
      MutexLock lock(mu_);
      closed_ = true;
      return Annotate(status.ok() ? absl::UnavailableError("the session ended at once") : status,
                      absl::StrCat("the chief at ", options_.chief_address, " did not admit this task"));
    }
    last_heard_ = clock_.Now();
    reader_ = std::thread([this] { ReadOrders(); });
    writer_ = std::thread([this] { WriteMessages(); });
    return absl::OkStatus();
  }

  void Send(proto::FromTask message) override {
    MutexLock lock(mu_);
    outgoing_.push_back(std::move(message));
    outgoing_changed_.NotifyOne();
  }

  absl::StatusOr<proto::ToTask> Receive() override {
    MutexLock lock(mu_);
    // ReadOrders ends the wait at the latest when the chief has been silent for too long.
    while (incoming_.empty() && broken_.ok()) incoming_changed_.Wait(mu_);
    if (incoming_.empty()) return broken_;
    return TakeOrder();
  }

  absl::StatusOr<absl::optional<proto::ToTask>> Poll() override {
    MutexLock lock(mu_);
    if (!incoming_.empty()) return absl::optional<proto::ToTask>(TakeOrder());
    if (!broken_.ok()) return broken_;
    return absl::optional<proto::ToTask>();
  }

  void StartBeating(Nanoseconds interval, Fill fill) override {
    MutexLock beat_lock(beat_mu_);
    fill_ = std::move(fill);
    MutexLock lock(mu_);
    beat_interval_ = interval;
    outgoing_changed_.NotifyOne();
  }

  void Beat() override {
    MutexLock beat_lock(beat_mu_);
    if (fill_ == nullptr) return;
    proto::FromTask beat;
    std::vector<proto::FromTask> before;
    proto::Heartbeat& heartbeat = *beat.mutable_heartbeat();
    heartbeat.set_resident_bytes(ResidentBytes());
    fill_(heartbeat, before);
    MutexLock lock(mu_);
    for (proto::FromTask& message : before) outgoing_.push_back(std::move(message));
    heartbeat.set_sent_ns(clock_.Now());
    heartbeat.set_clock_offset_ns(chief_clock_.offset());
    heartbeat.set_clock_error_ns(chief_clock_.ErrorAt(heartbeat.sent_ns()));
    outgoing_.push_back(std::move(beat));
    outgoing_changed_.NotifyOne();
  }

  absl::Status ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out) override {
    grpc::ClientContext context;
    TETHYS_RETURN_IF_ERROR(AddHandshake(context, options_.connect_timeout));
    proto::ReadCheckpointRequest request;
    proto::ArenaRange& range = *request.add_range();
    range.set_slot(slot);
    range.set_begin(begin);
    range.set_count(static_cast<int64_t>(out.size()));
    auto reader = stub_->ReadCheckpoint(&context, request);
    proto::CheckpointChunk chunk;
    int64_t done = 0;
    while (reader->Read(&chunk)) {
      const int64_t count = chunk.range().count();
      if (chunk.range().slot() != slot || chunk.range().begin() != begin + done || count < 0 ||
          count > static_cast<int64_t>(out.size()) - done ||
          static_cast<int64_t>(chunk.data().size()) != count * static_cast<int64_t>(sizeof(float))) {
        context.TryCancel();
        reader->Finish();
        return absl::DataLossError("the chief sent another range of the checkpoint than was asked for");
      }
      std::copy_n(chunk.data().data(), chunk.data().size(), reinterpret_cast<char*>(out.data() + done));
      done += count;
    }
    TETHYS_RETURN_IF_ERROR(
        Annotate(FromGrpcStatus(reader->Finish()), "reading the checkpoint from the chief"));
    if (done != static_cast<int64_t>(out.size())) {
      return absl::DataLossError(absl::StrCat("the chief sent ", done, " of ", out.size(), " values"));
    }
    return absl::OkStatus();
  }

  absl::Status WriteCheckpoint(int64_t save_id, Source source) override {
    grpc::ClientContext context;
    TETHYS_RETURN_IF_ERROR(AddHandshake(context, options_.connect_timeout));
    proto::WriteCheckpointReply reply;
    auto writer = stub_->WriteCheckpoint(&context, &reply);
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
        // False: the chief has ended the stream; Finish tells why.
        chief_listens = writer->Write(chunk);
      }
      return chief_listens ? absl::OkStatus() : absl::AbortedError("the chief ended the stream");
    });
    writer->WritesDone();
    TETHYS_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish()));
    return source_status;
  }

  void Close() override {
    {
      MutexLock lock(mu_);
      if (closed_) return;
      closed_ = true;
      outgoing_changed_.NotifyOne();
    }
    if (writer_.joinable()) writer_.join();
    {
      // The chief ends the stream when it has read everything; if it does not, the call is cancelled.
      const Nanoseconds deadline = clock_.Now() + kSecond;
      MutexLock lock(mu_);
      while (broken_.ok() && clock_.Now() < deadline) incoming_changed_.WaitFor(mu_, deadline - clock_.Now());
    }
    context_.TryCancel();
    if (reader_.joinable()) reader_.join();
  }

 private:
  // Asks for a challenge and puts the answer into the call's metadata.
  absl::Status AddHandshake(grpc::ClientContext& context, Nanoseconds timeout) {
    proto::Challenge challenge;
    absl::Status status = GetChallenge(timeout, /*patient=*/true, challenge);
    // A call that waits for the connection does not say why there is none; one that does not wait does.
    if (absl::IsDeadlineExceeded(status)) status = GetChallenge(kSecond, /*patient=*/false, challenge);
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

  absl::Status GetChallenge(Nanoseconds timeout, bool patient, proto::Challenge& challenge) {
    grpc::ClientContext context;
    context.set_wait_for_ready(patient);
    context.set_deadline(After(timeout));
    return FromGrpcStatus(stub_->GetChallenge(&context, proto::ChallengeRequest(), &challenge));
  }

  proto::ToTask TakeOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    proto::ToTask order = std::move(incoming_.front());
    incoming_.pop_front();
    return order;
  }

  // The reader thread.
  void ReadOrders() {
    proto::ToTask order;
    while (stream_->Read(&order)) {
      last_heard_ = clock_.Now();
      MutexLock lock(mu_);
      if (order.has_pong()) {
        chief_clock_.Note(order.pong().sent_ns(), last_heard_, order.pong().chief_ns());
      } else {
        incoming_.push_back(order);
        incoming_changed_.NotifyAll();
      }
    }
    const absl::Status status = FromGrpcStatus(stream_->Finish());
    MutexLock lock(mu_);
    broken_ = Annotate(status.ok() ? absl::UnavailableError("it ended the session") : status,
                       absl::StrCat("lost the chief at ", options_.chief_address));
    incoming_changed_.NotifyAll();
    outgoing_changed_.NotifyAll();
  }

  // The writer thread: what is queued, and a beat when it is time.
  void WriteMessages() {
    Nanoseconds next_beat = clock_.Now();
    while (true) {
      absl::optional<proto::FromTask> message;
      bool beat = false;
      {
        MutexLock lock(mu_);
        while (true) {
          if (!broken_.ok()) return;
          if (!outgoing_.empty()) break;
          if (closed_) {
            stream_->WritesDone();
            return;
          }
          beat = beat_interval_ > 0 && clock_.Now() >= next_beat;
          if (beat) break;
          outgoing_changed_.WaitFor(mu_, beat_interval_ > 0 ? next_beat - clock_.Now() : kSecond);
        }
        if (!beat) {
          message = std::move(outgoing_.front());
          outgoing_.pop_front();
        } else {
          next_beat = clock_.Now() + beat_interval_;
        }
      }
      if (beat) {
        Beat();
        if (clock_.Now() - last_heard_ > options_.chief_silence) {
          TETHYS_LOG(Error, "nothing heard from the chief for ", ToSeconds(options_.chief_silence), " s");
          context_.TryCancel();
        }
      } else if (!stream_->Write(*message)) {
        return;  // The reader learns why.
      }
    }
  }

  const TaskOptions options_;
  const Clock& clock_;
  const std::unique_ptr<proto::Chief::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::FromTask, proto::ToTask>> stream_;
  bool admitted_ = false;
  std::atomic<Nanoseconds> last_heard_;

  Mutex beat_mu_;  // Before mu_ where both are held.
  Fill fill_ ABSL_GUARDED_BY(beat_mu_);

  Mutex mu_;
  CondVar incoming_changed_;
  CondVar outgoing_changed_;
  std::deque<proto::ToTask> incoming_ ABSL_GUARDED_BY(mu_);
  std::deque<proto::FromTask> outgoing_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  Nanoseconds beat_interval_ ABSL_GUARDED_BY(mu_) = 0;
  ChiefClock chief_clock_ ABSL_GUARDED_BY(mu_);

  std::thread reader_;
  std::thread writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TaskSession>> TaskSession::Connect(const TaskOptions& options,
                                                                  const Clock& clock) {
  auto session = std::make_unique<GrpcTaskSession>(options, clock);
  TETHYS_RETURN_IF_ERROR(session->Open());
  return absl::StatusOr<std::unique_ptr<TaskSession>>(std::move(session));
}

}  // namespace tethys
