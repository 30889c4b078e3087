#include "ps/parameter_client.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "ps/server_link.h"

namespace tethys {
namespace {

// A range that travels: sent, answered, sent again.
struct Message {
  enum class State { kIdle, kReady, kSent, kAnswered };

  MessageRange where;
  State state = State::kIdle;
  Frame frame;
  const float* payload = nullptr;
  ReceivedMessage answer;
};

class GrpcParameterClient final : public ParameterClient, public ServerLink::Owner {
 public:
  explicit GrpcParameterClient(ParameterClientOptions options) : options_(std::move(options)) {
    for (size_t server = 0; server < options_.servers.size(); ++server) {
      links_.push_back(std::make_unique<ServerLink>(*this, mu_, queue_, options_, static_cast<int>(server)));
    }
    MutexLock lock(mu_);
    in_flight_.assign(links_.size(), 0);
    for (const auto& link : links_) link->Connect();
    thread_ = std::thread([this] { Loop(); });
  }
  ~GrpcParameterClient() override;

  void SetMessages(absl::Span<const MessageRange> messages) override;
  absl::Status Send(int index, Frame frame, const float* payload) override;
  absl::Status WaitForAnswer(int index, Nanoseconds timeout) override;
  const Frame& answer(int index) const override { return messages_[index]->answer.frame(); }
  void TakeAnswer(int index, float* out) override;
  int64_t bytes_out() const override;
  int64_t bytes_in() const override;

 private:
  void Loop();
  std::string ServerName(int server) const;
  // Until nothing is outstanding.
  void LiftWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Overdue(Nanoseconds timeout) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // From the links, with mu_ held; the analysis cannot see that their lock is this one.
  void OnOpen(int server) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  bool NextMessage(int server, grpc::ByteBuffer* message) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status OnAnswer(int server, ReceivedMessage& message) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void OnBroken(int server, const absl::Status& status) override ABSL_NO_THREAD_SAFETY_ANALYSIS;

  const ParameterClientOptions options_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<ServerLink>> links_;  // By server; guarded by mu_.
  // Changed by SetMessages only. A message belongs to the links (mu_) while it is ready or sent, else to the
  // training thread.
  std::vector<std::unique_ptr<Message>> messages_;
  std::thread thread_;

  mutable Mutex mu_;
  CondVar answered_;
  int outstanding_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int> in_flight_ ABSL_GUARDED_BY(mu_);  // By server: messages sent and not answered.
  bool window_lifted_ ABSL_GUARDED_BY(mu_) = false;
  Nanoseconds last_answer_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_out_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t bytes_in_ ABSL_GUARDED_BY(mu_) = 0;
};

GrpcParameterClient::~GrpcParameterClient() {
  {
    MutexLock lock(mu_);
    for (const auto& link : links_) link->Stop();
    queue_.Shutdown();
  }
  thread_.join();
}

void GrpcParameterClient::Loop() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<Completion*>(tag)->Run(ok);
}

std::string GrpcParameterClient::ServerName(int server) const {
  const ServerAddress& address = options_.servers[server];
  return absl::StrCat("server ", server, " on ", address.host, " (", address.address, ")");
}

// ------------------------------------------------------------------------------------ training thread

void GrpcParameterClient::SetMessages(absl::Span<const MessageRange> messages) {
  MutexLock lock(mu_);
  TETHYS_CHECK(outstanding_ == 0);
  messages_.clear();
  for (const MessageRange& where : messages) {
    messages_.push_back(std::make_unique<Message>());
    messages_.back()->where = where;
  }
}

absl::Status GrpcParameterClient::Send(int index, Frame frame, const float* payload) {
  MutexLock lock(mu_);
  TETHYS_RETURN_IF_ERROR(broken_);
  Message& message = *messages_[index];
  TETHYS_CHECK(message.state == Message::State::kIdle || message.state == Message::State::kAnswered);
  frame.range_begin = static_cast<uint64_t>(message.where.range.begin);
  frame.range_count = static_cast<uint64_t>(message.where.range.count);
  frame.payload_bytes = payload == nullptr ? 0 : frame.range_count * sizeof(float);
  message.frame = frame;
  message.payload = payload;
  message.state = Message::State::kReady;
  if (outstanding_++ == 0) {
    last_answer_ = options_.clock->Now();
    window_lifted_ = options_.window == 0;
  }
  links_[message.where.server]->WriteNext();
  return absl::OkStatus();
}

absl::Status GrpcParameterClient::WaitForAnswer(int index, Nanoseconds timeout) {
  const Message& message = *messages_[index];
  MutexLock lock(mu_);
  while (message.state != Message::State::kAnswered && broken_.ok()) {
    const Nanoseconds silence = options_.clock->Now() - last_answer_;
    if (silence >= timeout) return Overdue(timeout);
    if (silence >= options_.patience && !window_lifted_) LiftWindow();
    answered_.WaitFor(mu_, std::min(timeout, window_lifted_ ? timeout : options_.patience) - silence);
  }
  return broken_;
}

void GrpcParameterClient::LiftWindow() {
  window_lifted_ = true;
  for (const auto& link : links_) link->WriteNext();
}

absl::Status GrpcParameterClient::Overdue(Nanoseconds timeout) const {
  std::string waited_for;
  int last_server = -1;
  uint64_t step = 0;
  for (const auto& message : messages_) {
    const bool waits = message->state == Message::State::kReady || message->state == Message::State::kSent;
    if (!waits || message->where.server == last_server) continue;
    last_server = message->where.server;
    step = message->frame.step;
    absl::StrAppend(&waited_for, waited_for.empty() ? "" : ", ", ServerName(last_server), " for range [",
                    message->where.range.begin, ", ", message->where.range.end(), ")");
  }
  return absl::DeadlineExceededError(absl::StrCat("worker ", options_.handshake.index(), ", step ", step,
                                                  ": no answer within ", ToSeconds(timeout), " s from ",
                                                  waited_for));
}

void GrpcParameterClient::TakeAnswer(int index, float* out) {
  ReceivedMessage& answer = messages_[index]->answer;
  char* to = reinterpret_cast<char*>(out);
  for (const absl::string_view piece : answer.payload()) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  answer.Clear();
}

int64_t GrpcParameterClient::bytes_out() const {
  MutexLock lock(mu_);
  return bytes_out_;
}

int64_t GrpcParameterClient::bytes_in() const {
  MutexLock lock(mu_);
  return bytes_in_;
}

// --------------------------------------------------------------------------------------- from the links

void GrpcParameterClient::OnOpen(int server) {
  in_flight_[server] = 0;
  for (const auto& message : messages_) {
    if (message->where.server == server && message->state == Message::State::kSent) {
      message->state = Message::State::kReady;
    }
  }
}

bool GrpcParameterClient::NextMessage(int server, grpc::ByteBuffer* out) {
  if (!window_lifted_ && in_flight_[server] >= options_.window) return false;
  for (const auto& message : messages_) {
    if (message->where.server != server || message->state != Message::State::kReady) continue;
    ++in_flight_[server];
    message->state = Message::State::kSent;
    const size_t payload_bytes = message->frame.payload_bytes;
    // Of a message that is sent again, the first may be answered while the second is on its way. The values
    // that this one carries may change then, and the server knows by the sequence not to look at them; so the
    // header must not change with them.
    char encoded[kFrameBytes];
    message->frame.EncodeTo(encoded);
    const grpc::Slice header(encoded, kFrameBytes);
    const grpc::Slice payload(message->payload, payload_bytes, grpc::Slice::STATIC_SLICE);
    *out = MakeMessage(header, payload);
    bytes_out_ += kFrameBytes + static_cast<int64_t>(payload_bytes);
    return true;
  }
  return false;
}

absl::Status GrpcParameterClient::OnAnswer(int server, ReceivedMessage& received) {
  const Frame& frame = received.frame();
  bytes_in_ += kFrameBytes + static_cast<int64_t>(frame.payload_bytes);
  const auto it = std::find_if(messages_.begin(), messages_.end(), [&](const auto& message) {
    return message->where.server == server &&
           static_cast<uint64_t>(message->where.range.begin) == frame.range_begin;
  });
  const bool fits = frame.kind == FrameKind::kParameters && frame.dtype == FrameDType::kFloat32 &&
                    frame.payload_bytes == frame.range_count * sizeof(float) && it != messages_.end() &&
                    frame.range_count == static_cast<uint64_t>((*it)->where.range.count);
  if (!fits)
    return absl::InternalError(absl::StrCat("an answer to nothing that was sent: ", FrameText(frame)));
  Message& message = **it;
  const bool waits = message.state == Message::State::kReady || message.state == Message::State::kSent;
  // The second answer to a message that was sent twice. Pulls have no sequence: their steps tell them apart.
  const bool second = frame.sequence != message.frame.sequence || frame.step != message.frame.step;
  if (!waits || second) return absl::OkStatus();

  if (message.state == Message::State::kSent) --in_flight_[server];
  std::swap(message.answer, received);
  message.state = Message::State::kAnswered;
  last_answer_ = options_.clock->Now();
  --outstanding_;
  answered_.NotifyAll();
  return absl::OkStatus();
}

void GrpcParameterClient::OnBroken(int server, const absl::Status& status) {
  if (broken_.ok()) broken_ = Annotate(status, ServerName(server));
  answered_.NotifyAll();
}

}  // namespace

std::unique_ptr<ParameterClient> ParameterClient::Create(ParameterClientOptions options) {
  TETHYS_CHECK(options.clock != nullptr);
  return std::make_unique<GrpcParameterClient>(std::move(options));
}

}  // namespace tethys
