#include "ps/copy_sender.h"

#include <algorithm>
#include <utility>

#include "ps/data_stream.h"
#include "ps/link_loop.h"
#include "ps/server_link.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/mutex.h"

namespace tethys {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 18;  // Of one frame: 1 MiB.

class GrpcCopySender final : public CopySender, public ServerLink::Owner {
 public:
  explicit GrpcCopySender(CopySenderOptions options)
      : options_(std::move(options)), link_(*this, mu_, loop_.queue(), options_.client, options_.receiver) {
    started_ = loop_.Start();
    MutexLock lock(mu_);
    if (started_.ok()) link_.Connect();
  }
  ~GrpcCopySender() override {
    {
      MutexLock lock(mu_);
      link_.Stop();
      loop_.ShutDown();
    }
    loop_.Join(options_.client.servers);
  }

  const absl::Status& started() const { return started_; }

  void Offer(int64_t version, std::string book) override {
    MutexLock lock(mu_);
    BeginWhole(version, std::move(book));
    question_ = Question::kDue;
    link_.WriteNext();
  }

  void Send(int64_t version, std::string book) override {
    MutexLock lock(mu_);
    BeginWhole(version, std::move(book));
    link_.WriteNext();
  }

  void Add(int64_t version, Range range) override {
    MutexLock lock(mu_);
    if (copied_ || version != version_) Begin(version);
    Split(range);
    link_.WriteNext();
  }

  // ---- ServerLink::Owner; all called with the lock held

  void OnOpen(int) override {
    // The receiver may have the version already, although its answer was lost.
    next_ = 0;
    question_ = Question::kDue;
  }

  bool NextMessage(int, grpc::ByteBuffer* message) override {
    if (copied_ || question_ == Question::kAsked) return false;
    Frame frame;
    frame.kind = FrameKind::kCopy;
    frame.generation = options_.client.handshake.generation();
    frame.group = static_cast<uint32_t>(options_.primary);
    frame.rank = static_cast<uint32_t>(options_.client.handshake.index());
    frame.incarnation = options_.client.handshake.incarnation();
    frame.base_version = static_cast<uint64_t>(version_);
    if (question_ == Question::kDue) {
      question_ = Question::kAsked;
      *message = MakeMessage(Header(frame), grpc::Slice());
      return true;
    }
    const size_t arenas = options_.arenas.size(), before = book_.empty() ? 0 : 1;
    if (next_ == before + ranges_.size() * arenas) return false;
    frame.sequence = ++next_;
    if (next_ == before) {
      frame.dtype = FrameDType::kBytes;
      frame.step = arenas;
      frame.payload_bytes = book_.size();
      if (options_.client.HasChecksums(options_.receiver)) frame.payload_checksum = Crc32c(book_);
      *message = MakeMessage(Header(frame), grpc::Slice(book_.data(), book_.size()));
      return true;
    }
    const size_t number = next_ - before - 1;
    const Range range = ranges_[number / arenas];
    frame.step = number % arenas;
    frame.range_begin = static_cast<uint64_t>(range.begin);
    frame.range_count = static_cast<uint64_t>(range.count);
    frame.payload_bytes = range.count * sizeof(float);
    float* const values = const_cast<float*>(options_.arenas[frame.step]) + range.begin;
    if (options_.client.HasChecksums(options_.receiver)) {
      frame.payload_checksum = Crc32c({reinterpret_cast<const char*>(values), frame.payload_bytes});
    }
    const auto release = [](void* memory) { delete static_cast<std::shared_ptr<const void>*>(memory); };
    *message = MakeMessage(Header(frame), grpc::Slice(values, frame.payload_bytes, release,
                                                      new std::shared_ptr<const void>(options_.memory)));
    return true;
  }

  absl::Status OnAnswer(int, ReceivedMessage& message) override {
    const Frame& frame = message.frame();
    if (frame.kind != FrameKind::kCopy || frame.group != static_cast<uint32_t>(options_.primary)) {
      return absl::InvalidArgumentError(absl::StrCat("expected the answer to a copy: ", FrameText(frame)));
    }
    if (copied_ || frame.base_version != static_cast<uint64_t>(version_)) return absl::OkStatus();
    const bool answers_question = frame.sequence == 0;
    if (answers_question) question_ = Question::kNone;
    if (answers_question && frame.range_count == 0) return absl::OkStatus();  // It lacks the version.
    copied_ = true;
    options_.on_copied(version_);
    return absl::OkStatus();
  }

  void OnBroken(int, const absl::Status& status) override {
    options_.on_refused(Annotate(status, absl::StrCat("server ", options_.receiver, " on ",
                                                      options_.client.servers[options_.receiver].host,
                                                      " takes no copy of server ", options_.primary)));
  }

 private:
  // Whether the receiver has to be asked if it has the version already.
  enum class Question { kNone, kDue, kAsked };

  void Begin(int64_t version) {
    version_ = version;
    copied_ = false;
    question_ = Question::kNone;
    book_.clear();
    ranges_.clear();
    next_ = 0;
  }

  void BeginWhole(int64_t version, std::string book) {
    Begin(version);
    book_ = std::move(book);
    Split({0, options_.size});
  }

  void Split(Range range) {
    for (int64_t begin = range.begin; begin < range.end(); begin += kMostElements) {
      ranges_.push_back({begin, std::min(kMostElements, range.end() - begin)});
    }
  }

  static grpc::Slice Header(const Frame& frame) {
    char header[kFrameBytes];
    frame.EncodeTo(header);
    return grpc::Slice(header, kFrameBytes);
  }

  const CopySenderOptions options_;
  Mutex mu_;
  // Used with the lock held.
  bool copied_ = true;
  int64_t version_ = -1;
  Question question_ = Question::kNone;
  std::string book_;           // Of the version; empty: it has none.
  std::vector<Range> ranges_;  // Of the version, in the order in which they are sent.
  // The number of frames of the version that were sent: the book, then for each range one for each arena.
  size_t next_ = 0;
  LinkLoop loop_;
  ServerLink link_;
  absl::Status started_;  // An error: no thread could be started.
};

}  // namespace

absl::StatusOr<std::unique_ptr<CopySender>> CopySender::Start(CopySenderOptions options) {
  auto sender = std::make_unique<GrpcCopySender>(std::move(options));
  TETHYS_RETURN_IF_ERROR(sender->started());
  return std::unique_ptr<CopySender>(std::move(sender));
}

}  // namespace tethys
