#include "ps/parameter_client.h"

#include <algorithm>
#include <utility>

#include "ps/link_loop.h"
#include "ps/payload.h"
#include "ps/server_link.h"
#include "runtime/base/crc32c.h"

namespace tethys {
namespace {

// A message, sent and answered in every step.
struct Message {
  enum class State { kIdle, kReady, kSent, kAnswered };

  MessageRange where;
  State state = State::kIdle;
  // True while the message is in its server's outbox. NextMessage skips messages that are not kReady.
  bool queued = false;
  Frame frame;
  const void* payload = nullptr;
  ReceivedMessage answer;

  // True if a frame of this kind can answer the message, now or in an earlier step.
  bool TakesAnswer(const Frame& answer) const {
    if (!where.norms) {
      return answer.kind == FrameKind::kParameters && answer.dtype == FrameDType::kFloat32 &&
             answer.range_count == static_cast<uint64_t>(where.range.count);
    }
    const bool norms = answer.kind == FrameKind::kNorm || answer.kind == FrameKind::kMeasure ||
                       answer.kind == FrameKind::kCommit;
    return norms && answer.dtype == FrameDType::kFloat64;
  }
  // True if `answer` is the second answer to an earlier frame of this message, which was sent twice.
  bool IsSecond(const Frame& answer) const {
    return answer.sequence != frame.sequence || answer.step != frame.step ||
           (where.norms && answer.kind != frame.kind);
  }
};

// The messages to one server, and a queue of the messages that are to be sent. Push and Pop take constant
// time, Find a binary search.
class Outbox {
 public:
  void Add(int index, const MessageRange& where) {
    messages_.push_back(index);
    if (where.norms) {
      norms_ = index;
    } else {
      by_begin_.emplace_back(where.range.begin, index);
    }
    queue_.resize(messages_.size());
  }
  void Sort() { std::sort(by_begin_.begin(), by_begin_.end()); }

  // All messages, in the order of their indices.
  const std::vector<int>& messages() const { return messages_; }
  // The index of the message that `answer` is for: the message of norms, or the message whose range begins
  // where the answer's range does. -1: none.
  int Find(const Frame& answer) const {
    if (answer.kind != FrameKind::kParameters) return norms_;
    const auto begin = static_cast<int64_t>(answer.range_begin);
    const auto place = std::lower_bound(by_begin_.begin(), by_begin_.end(), std::pair{begin, 0});
    return place != by_begin_.end() && place->first == begin ? place->second : -1;
  }

  // The queue of messages to send; a message is in it at most once.
  bool empty() const { return count_ == 0; }
  void Push(int index) { queue_[(first_ + count_++) % queue_.size()] = index; }
  int Pop() {
    const int index = queue_[first_];
    first_ = (first_ + 1) % queue_.size();
    --count_;
    return index;
  }

  void Clear() { first_ = count_ = 0; }

  int in_flight = 0;  // Messages sent but not answered.

 private:
  std::vector<int> messages_;
  std::vector<std::pair<int64_t, int>> by_begin_;
  int norms_ = -1;
  std::vector<int> queue_;  // A ring buffer: `count_` indices from position `first_` on.
  size_t first_ = 0;
  size_t count_ = 0;
};

absl::Status Unexpected(const Frame& answer) {
  return absl::InternalError(
      absl::StrCat("received an answer to a message that was not sent: ", FrameText(answer)));
}

class GrpcParameterClient final : public ParameterClient, public ServerLink::Owner {
 public:
  explicit GrpcParameterClient(ParameterClientOptions options) : options_(std::move(options)) {
    for (size_t server = 0; server < options_.servers.size(); ++server) {
      links_.push_back(
          std::make_unique<ServerLink>(*this, mu_, loop_.queue(), options_, static_cast<int>(server)));
    }
    MutexLock lock(mu_);
    outboxes_.resize(links_.size());
    // If no thread can be started, every call returns this error.
    broken_ = loop_.Start();
    if (!broken_.ok()) return;
    for (const auto& link : links_) link->Connect();
  }
  ~GrpcParameterClient() override;

  void SetMessages(absl::Span<const MessageRange> messages) override;
  absl::Status Send(int index, Frame frame, const void* payload) override;
  absl::Status WaitForAnswer(int index, Nanoseconds timeout) override;
  const Frame& answer(int index) const override { return messages_[index]->answer.frame(); }
  void TakeAnswer(int index, void* out) override;
  void Interrupt(const absl::Status& status) override;
  void Redirect(const std::vector<ServerAddress>& servers) override;
  int64_t bytes_out() const override;
  int64_t bytes_in() const override;

 private:
  bool HasChecksums(int server) const {
    MutexLock lock(mu_);
    return options_.HasChecksums(server);
  }
  std::string ServerName(int server) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Queue(int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The length of the payload of the answer to `sent`.
  uint64_t AnswerBytes(const Frame& sent) const;
  // Lifts the limit on unanswered messages until all messages are answered.
  void LiftWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Overdue(Nanoseconds timeout) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Called by the links with mu_ held; the thread-safety analysis cannot see that the links lock mu_.
  void OnOpen(int server) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  bool NextMessage(int server, grpc::ByteBuffer* message) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status OnAnswer(int server, ReceivedMessage& message) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void OnBroken(int server, const absl::Status& status) override ABSL_NO_THREAD_SAFETY_ANALYSIS;

  ParameterClientOptions options_;  // mu_ guards the servers; all else stays as it is.
  LinkLoop loop_;
  std::vector<std::unique_ptr<ServerLink>> links_;  // One link per server; guarded by mu_.
  // Only SetMessages changes the list. mu_ always guards a message's `state`, `queued` and `frame`. mu_
  // guards `payload` and `answer` while the message is kReady or kSent; otherwise the training thread owns
  // these two.
  std::vector<std::unique_ptr<Message>> messages_;

  mutable Mutex mu_;
  CondVar answered_;
  // The message whose answer wakes the training thread.
  const Message* awaited_ ABSL_GUARDED_BY(mu_) = nullptr;
  int outstanding_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Outbox> outboxes_ ABSL_GUARDED_BY(mu_);  // One outbox per server.
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
    loop_.ShutDown();
  }
  loop_.Join(options_.servers);
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
  outboxes_.assign(links_.size(), Outbox());
  for (const MessageRange& where : messages) {
    outboxes_[where.server].Add(static_cast<int>(messages_.size()), where);
    messages_.push_back(std::make_unique<Message>());
    messages_.back()->where = where;
  }
  for (Outbox& outbox : outboxes_) outbox.Sort();
}

absl::Status GrpcParameterClient::Send(int index, Frame frame, const void* payload) {
  Message& message = *messages_[index];
  if (!message.where.norms) {
    frame.range_begin = static_cast<uint64_t>(message.where.range.begin);
    frame.range_count = static_cast<uint64_t>(message.where.range.count);
    frame.payload_bytes = payload == nullptr ? 0 : frame.range_count * BytesOf(frame.dtype);
  }
  if (HasChecksums(message.where.server)) {
    frame.payload_checksum = Crc32c({static_cast<const char*>(payload), frame.payload_bytes});
  }
  MutexLock lock(mu_);
  TETHYS_RETURN_IF_ERROR(broken_);
  TETHYS_CHECK(message.state == Message::State::kIdle || message.state == Message::State::kAnswered);
  message.frame = frame;
  message.payload = payload;
  if (outstanding_++ == 0) {
    last_answer_ = options_.clock->Now();
    window_lifted_ = options_.window == 0;
  }
  Queue(index);
  links_[message.where.server]->WriteNext();
  return absl::OkStatus();
}

void GrpcParameterClient::Queue(int index) {
  Message& message = *messages_[index];
  message.state = Message::State::kReady;
  if (!message.queued) outboxes_[message.where.server].Push(index);
  message.queued = true;
}

absl::Status GrpcParameterClient::WaitForAnswer(int index, Nanoseconds timeout) {
  const Message& message = *messages_[index];
  MutexLock lock(mu_);
  awaited_ = &message;
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
    absl::StrAppend(&waited_for, waited_for.empty() ? "" : ", ", ServerName(last_server));
    if (message->where.norms) {
      absl::StrAppend(&waited_for, " for norms over all servers");
    } else {
      absl::StrAppend(&waited_for, " for range [", message->where.range.begin, ", ",
                      message->where.range.end(), ")");
    }
  }
  return absl::DeadlineExceededError(absl::StrCat("worker ", options_.handshake.index(), ", step ", step,
                                                  ": no answer within ", ToSeconds(timeout), " s from ",
                                                  waited_for));
}

void GrpcParameterClient::TakeAnswer(int index, void* out) {
  ReceivedMessage& answer = messages_[index]->answer;
  char* to = static_cast<char*>(out);
  for (const absl::string_view piece : answer.payload()) to = std::copy(piece.begin(), piece.end(), to);
  answer.Clear();
}

void GrpcParameterClient::Interrupt(const absl::Status& status) {
  MutexLock lock(mu_);
  if (broken_.ok()) broken_ = status;
  for (const auto& link : links_) link->Stop();
  answered_.NotifyAll();
}

void GrpcParameterClient::Redirect(const std::vector<ServerAddress>& servers) {
  MutexLock lock(mu_);
  if (!broken_.ok() || servers.size() != links_.size()) return;
  for (size_t server = 0; server < servers.size(); ++server) {
    if (options_.servers[server].address == servers[server].address) continue;
    options_.servers[server] = servers[server];
    links_[server]->Redirect();
  }
}

int64_t GrpcParameterClient::bytes_out() const {
  MutexLock lock(mu_);
  return bytes_out_;
}

int64_t GrpcParameterClient::bytes_in() const {
  MutexLock lock(mu_);
  return bytes_in_;
}

// ------------------------------------------------------------------------------- callbacks of the links

void GrpcParameterClient::OnOpen(int server) {
  Outbox& outbox = outboxes_[server];
  outbox.in_flight = 0;
  outbox.Clear();
  for (const int index : outbox.messages()) {
    Message& message = *messages_[index];
    message.queued = false;
    if (message.state == Message::State::kReady || message.state == Message::State::kSent) Queue(index);
  }
}

bool GrpcParameterClient::NextMessage(int server, grpc::ByteBuffer* out) {
  Outbox& outbox = outboxes_[server];
  if (!window_lifted_ && outbox.in_flight >= options_.window) return false;
  Message* next = nullptr;
  while (next == nullptr && !outbox.empty()) {
    Message& message = *messages_[outbox.Pop()];
    message.queued = false;
    // An answer may have come while the message waited to be sent again.
    if (message.state == Message::State::kReady) next = &message;
  }
  if (next == nullptr) return false;
  Message& message = *next;
  ++outbox.in_flight;
  message.state = Message::State::kSent;
  const size_t payload_bytes = message.frame.payload_bytes;
  // If a message is sent twice, the first copy may be answered while the second is being sent. The second
  // copy's values may then change; the server ignores them because of the sequence in the header. The header
  // must not change, so it is copied each time the message is sent.
  char encoded[kFrameBytes];
  message.frame.EncodeTo(encoded);
  const grpc::Slice header(encoded, kFrameBytes);
  // Sums of norms are copied, because the server also checks the sums of a repeated message, and the caller
  // may have changed them by then.
  const grpc::Slice payload = message.where.norms
                                  ? grpc::Slice(message.payload, payload_bytes)
                                  : grpc::Slice(message.payload, payload_bytes, grpc::Slice::STATIC_SLICE);
  *out = MakeMessage(header, payload);
  bytes_out_ += kFrameBytes + static_cast<int64_t>(payload_bytes);
  return true;
}

absl::Status GrpcParameterClient::OnAnswer(int server, ReceivedMessage& received) {
  const Frame& frame = received.frame();
  bytes_in_ += kFrameBytes + static_cast<int64_t>(frame.payload_bytes);
  const int index = outboxes_[server].Find(frame);
  if (index < 0 || !messages_[index]->TakesAnswer(frame)) return Unexpected(frame);
  Message& message = *messages_[index];
  const bool waits = message.state == Message::State::kReady || message.state == Message::State::kSent;
  if (!waits || message.IsSecond(frame)) return absl::OkStatus();
  if (frame.range_count != message.frame.range_count || frame.payload_bytes != AnswerBytes(message.frame)) {
    return Unexpected(frame);
  }
  TETHYS_RETURN_IF_ERROR(CheckPayload(frame, received.payload()));

  if (message.state == Message::State::kSent) --outboxes_[server].in_flight;
  std::swap(message.answer, received);
  message.state = Message::State::kAnswered;
  last_answer_ = options_.clock->Now();
  --outstanding_;
  if (awaited_ == &message) answered_.NotifyAll();
  return absl::OkStatus();
}

uint64_t GrpcParameterClient::AnswerBytes(const Frame& sent) const {
  const bool with_values =
      sent.kind == FrameKind::kPush ? options_.pushes_bring_values : sent.kind != FrameKind::kCommit;
  return with_values ? sent.range_count * BytesOf(sent.dtype) : 0;
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
