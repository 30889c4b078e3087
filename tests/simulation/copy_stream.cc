#include "tests/simulation/copy_stream.h"

#include <utility>

#include "tests/simulation/simulated_server.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

constexpr Nanoseconds kPause = 5 * kMillisecond;

}  // namespace

void CopyStream::Begin(int64_t version) {
  version_ = version;
  copied_ = asks_ = false;
  frames_ = 0;
  book_.clear();
  ranges_.clear();
}

void CopyStream::Offer(int64_t version, std::string book) {
  Begin(version);
  book_ = std::move(book);
  ranges_ = {{0, options_.size}};
  Connect();
}

void CopyStream::SendWhole(int64_t version, std::string book) {
  if (stopped_) return;
  Begin(version);
  book_ = std::move(book);
  ranges_ = {{0, options_.size}};
  if (connection_->open(sender_)) SendAll();  // Otherwise all follow the answer on the next connection.
}

void CopyStream::Add(int64_t version, Range range) {
  if (stopped_) return;
  if (copied_ || version != version_) Begin(version);
  ranges_.push_back(range);
  if (asks_ || !connection_->open(sender_)) return;  // All ranges follow the answer or the next connection.
  for (size_t arena = 0; arena < options_.arenas.size(); ++arena) Send(ranges_.size() - 1, arena);
}

void CopyStream::Stop() {
  stopped_ = true;
  if (connection_ != nullptr) connection_->Close(sender_, absl::UnavailableError("the group was halted"));
}

void CopyStream::Connect() {
  World& world = sender_.simulated();
  connection_ = Connection::Make(world, sender_, *world.server(options_.receiver), Connection::Use::kData);
  // The connection does not own the stream, which owns the connection.
  connection_->WhenClosed(sender_, [stream = weak_from_this()](const absl::Status& status) {
    const std::shared_ptr<CopyStream> self = stream.lock();
    if (self == nullptr || self->stopped_) return;
    self->sender_.simulated().Trace("the copy of server ", self->options_.primary, " to server ",
                                    self->options_.receiver, " is sent again: ", StatusText(status));
    self->sender_.After(kPause, [self] {
      if (!self->stopped_) self->Connect();
    });
  });
  if (copied_) return;
  frames_ = 0;
  Ask();
}

void CopyStream::Ask() {
  asks_ = true;
  Frame frame;
  frame.kind = FrameKind::kCopy;
  frame.generation = options_.generation;
  frame.group = static_cast<uint32_t>(options_.primary);
  frame.base_version = static_cast<uint64_t>(version_);
  auto& to = static_cast<SimulatedServer&>(connection_->other(sender_));
  connection_->Send(sender_, [self = shared_from_this(), connection = connection_, &to, frame] {
    to.OnCopyFrame(connection, frame, {}, [self](const Frame& answer) { self->OnAnswer(true, answer); });
  });
}

void CopyStream::SendAll() {
  if (!book_.empty()) SendBook();
  for (size_t range = 0; range < ranges_.size(); ++range) {
    for (size_t arena = 0; arena < options_.arenas.size(); ++arena) Send(range, arena);
  }
}

Frame CopyStream::NextFrame() {
  Frame frame;
  frame.kind = FrameKind::kCopy;
  frame.generation = options_.generation;
  frame.group = static_cast<uint32_t>(options_.primary);
  frame.sequence = ++frames_;
  frame.base_version = static_cast<uint64_t>(version_);
  return frame;
}

void CopyStream::SendBook() {
  Frame frame = NextFrame();
  frame.dtype = FrameDType::kBytes;
  frame.step = options_.arenas.size();
  frame.payload_bytes = book_.size();
  auto& to = static_cast<SimulatedServer&>(connection_->other(sender_));
  connection_->Send(sender_, [self = shared_from_this(), connection = connection_, &to, frame, book = book_] {
    to.OnCopyFrame(connection, frame, book, [self](const Frame& answer) { self->OnAnswer(false, answer); });
  });
}

void CopyStream::Send(size_t range, size_t arena) {
  Frame frame = NextFrame();
  frame.step = arena;
  frame.range_begin = static_cast<uint64_t>(ranges_[range].begin);
  frame.range_count = static_cast<uint64_t>(ranges_[range].count);
  frame.payload_bytes = ranges_[range].count * sizeof(float);
  auto& to = static_cast<SimulatedServer&>(connection_->other(sender_));
  connection_->Send(sender_, [self = shared_from_this(), connection = connection_, &to, frame] {
    const float* const from = self->options_.arenas[frame.step] + frame.range_begin;
    to.OnCopyFrame(connection, frame, std::string(reinterpret_cast<const char*>(from), frame.payload_bytes),
                   [self](const Frame& answer) { self->OnAnswer(false, answer); });
  });
  sender_.simulated().disturbances().Reach(Point::kCopying, {&sender_, &to});
}

void CopyStream::OnAnswer(bool answers_question, const Frame& answer) {
  if (stopped_ || copied_ || answer.base_version != static_cast<uint64_t>(version_)) return;
  if (answers_question) asks_ = false;
  if (answers_question && answer.range_count == 0) return SendAll();
  copied_ = true;
  options_.on_copied(version_);
}

}  // namespace tethys::simulation
