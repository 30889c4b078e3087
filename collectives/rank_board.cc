#include "collectives/rank_board.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "collectives/frame_link.h"
#include "collectives/suspect.h"

namespace tethys {
namespace {

constexpr int64_t kLineBytes = 64;  // A line of the processor's cache.

// The time for which a rank spins on a counter before it sleeps. Waking a sleeping rank takes about ten
// microseconds; a spinning rank sees a post after about 0.1 us. 200 us cover the usual delay of a peer in
// a training step of 400 us. Compared with two workers that exchange nothing, two workers that exchange
// gradients made 0.70 to 0.75 times as many steps with 20 us of spinning, and 0.86 to 0.87 times as many with
// 200 us. Longer spinning gained nothing (tests/bench/data_parallel_bench.py).
constexpr Nanoseconds kWatch = 200 * kMicrosecond;
constexpr int kTurnsPerLookAtTheClock = 64;
// The time for which a rank sleeps before it checks that its peers are alive.
constexpr Nanoseconds kSleep = 20 * kMillisecond;

bool Crowded(int ranks) {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) < ranks;
}

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4,
              "the kernel and other processes use the atomic as a plain 32-bit integer");

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, Nanoseconds timeout) {
  const timespec relative = {.tv_sec = timeout / kSecond, .tv_nsec = timeout % kSecond};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &relative, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// True if `posts` is `number` or later. Counters may wrap around, but `posts` and `number` never differ by
// much.
bool Reached(uint32_t posts, uint32_t number) { return static_cast<int32_t>(posts - number) >= 0; }

// RankBoard::Fail replaces this error by the error of the rank that failed first.
absl::Status AnotherFailed() { return absl::UnavailableError("another rank has failed"); }

enum Farewell : uint32_t { kNone, kWritten, kLeft };

}  // namespace

struct RankBoard::Counter {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;  // Ranks asleep on `value`.
};

// The progress of the messages from one rank to another, in chunks.
struct alignas(kLineBytes) RankBoard::Channel {
  Counter posted;  // Chunks posted by the sender.
  Counter taken;   // Chunks taken by the receiver.
};

// The data that one rank publishes. Only that rank writes it, except for the counts of sleepers.
struct alignas(kLineBytes) RankBoard::Line {
  Counter posts;
  std::atomic<int32_t> core;  // The core on which the rank ran at its last post.
  std::atomic<int32_t> process;
  // Last words: the rank's final error.
  std::atomic<uint32_t> farewell;
  uint32_t code;
  uint32_t message_bytes;
  std::array<char, kMaxErrorBytes> message;
  std::array<Notice, 2> notices;  // One notice for even and one for odd collectives.
  Notice sent;                    // The last message that the rank sent.
};

int64_t RankBoard::Bytes(int world) {
  const int64_t channels = int64_t{world} * world;
  return kLineBytes + world * static_cast<int64_t>(sizeof(Line)) +
         channels * static_cast<int64_t>(sizeof(Channel));
}

RankBoard::RankBoard(RankBoardOptions options, char* memory)
    : options_(std::move(options)),
      crowded_(Crowded(world_size())),
      first_failed_(reinterpret_cast<std::atomic<int32_t>*>(memory)),
      lines_(reinterpret_cast<Line*>(memory + kLineBytes)),
      channels_(reinterpret_cast<Channel*>(lines_ + world_size())),
      posted_(world_size()),
      taken_(world_size()),
      messages_out_(world_size()),
      messages_in_(world_size()) {
  lines_[rank()].process = getpid();
}

RankBoard::~RankBoard() {
  SayLastWords(absl::OkStatus());
  WakeAll();
}

absl::Status RankBoard::Begin(const Frame& call, bool in_arenas) {
  ++step_;
  notice_ = {.frame = call, .in_arenas = in_arenas};
  notice_.frame.generation = options_.generation;
  notice_.frame.group = options_.group;
  notice_.frame.rank = static_cast<uint32_t>(rank());
  notice_.frame.step = step_;
  TETHYS_RETURN_IF_ERROR(CheckUsable());
  lines_[rank()].notices[step_ % 2] = notice_;
  checked_notices_ = false;
  return absl::OkStatus();
}

absl::Status RankBoard::CheckUsable() {
  if (!broken_.ok()) return broken_;
  if (aborted_.load(std::memory_order_acquire)) return Fail(AbortReason());
  if (*first_failed_ != 0) return Fail(AnotherFailed());
  return absl::OkStatus();
}

uint32_t RankBoard::Post() {
  Advance(lines_[rank()].posts, ++posts_);
  return posts_;
}

void RankBoard::Advance(Counter& counter, uint32_t number) const {
  lines_[rank()].core.store(sched_getcpu(), std::memory_order_relaxed);
  // Sequentially consistent with the increment of `sleepers`: either a sleeper sees the number, or Advance
  // sees the sleeper.
  counter.value.store(number, std::memory_order_seq_cst);
  if (counter.sleepers.load(std::memory_order_seq_cst) != 0) FutexWake(counter.value);
}

absl::Status RankBoard::WaitForAll(uint32_t number) {
  for (int peer = 0; peer < world_size(); ++peer) {
    TETHYS_RETURN_IF_ERROR(WaitFor(lines_[peer].posts, peer, number));
  }
  return checked_notices_ ? absl::OkStatus() : CheckNotices();
}

absl::Status RankBoard::BeginSend(int to, int64_t bytes) {
  TETHYS_RETURN_IF_ERROR(BeginMessage(rank(), bytes));
  notice_.frame.step = ++messages_out_[to];
  lines_[rank()].sent = notice_;
  return absl::OkStatus();
}

absl::Status RankBoard::BeginReceive(int from, int64_t bytes) {
  TETHYS_RETURN_IF_ERROR(BeginMessage(from, bytes));
  notice_.frame.step = ++messages_in_[from];
  checked_notices_ = false;
  return absl::OkStatus();
}

absl::Status RankBoard::BeginMessage(int from, int64_t bytes) {
  TETHYS_RETURN_IF_ERROR(CheckUsable());
  notice_ = {.frame = {.kind = FrameKind::kMessage,
                       .dtype = FrameDType::kBytes,
                       .generation = options_.generation,
                       .group = options_.group,
                       .rank = static_cast<uint32_t>(from),
                       .range_count = static_cast<uint64_t>(bytes)}};
  return absl::OkStatus();
}

RankBoard::Channel& RankBoard::ChannelOf(int from, int to) const {
  return channels_[static_cast<int64_t>(from) * world_size() + to];
}

void RankBoard::PostChunk(int to) { Advance(ChannelOf(rank(), to).posted, ++posted_[to]); }

absl::Status RankBoard::AwaitTaken(int to, uint32_t left) {
  return WaitFor(ChannelOf(rank(), to).taken, to, posted_[to] - left);
}

absl::Status RankBoard::AwaitChunk(int from) {
  TETHYS_RETURN_IF_ERROR(WaitFor(ChannelOf(from, rank()).posted, from, taken_[from] + 1));
  if (std::exchange(checked_notices_, true) || lines_[from].sent == notice_) return absl::OkStatus();
  return Fail(Mismatch(lines_[from].sent.frame));
}

void RankBoard::TakeChunk(int from) { Advance(ChannelOf(from, rank()).taken, ++taken_[from]); }

absl::Status RankBoard::WaitFor(Counter& counter, int peer, uint32_t number) {
  if (Watch(counter, peer, number)) return absl::OkStatus();
  Nanoseconds deadline = options_.clock->Now() + options_.step_timeout;
  while (true) {
    // Sleep compares the counter with `seen`, so an advance after this line keeps the rank awake.
    const uint32_t seen = counter.value.load(std::memory_order_acquire);
    if (Reached(seen, number)) return absl::OkStatus();
    if (const absl::Status status = CheckPeer(counter, peer, number); !status.ok()) return Fail(status);
    if (const Nanoseconds now = options_.clock->Now(); now >= deadline) {
      if (!options_.peers_compute || !options_.peers_compute()) return Fail(SilenceError(peer));
      deadline = now + options_.step_timeout;
    }
    Sleep(counter, seen);
  }
}

bool RankBoard::Watch(const Counter& counter, int peer, uint32_t number) const {
  const auto reached = [&] { return Reached(counter.value.load(std::memory_order_acquire), number); };
  if (reached()) return true;
  const Nanoseconds until = options_.clock->Now() + kWatch;
  do {
    for (int turn = 0; turn < kTurnsPerLookAtTheClock; ++turn) {
      if (reached()) return true;
    }
    // Yields only if the awaited rank may need this core. Yielding to a busy thread of another program would
    // give up the core for milliseconds. A sleeping rank, once woken, is scheduled before such a thread.
    if (crowded_ || lines_[peer].core.load(std::memory_order_relaxed) == sched_getcpu()) sched_yield();
  } while (options_.clock->Now() < until);
  return false;
}

void RankBoard::Sleep(Counter& counter, uint32_t seen) const {
  counter.sleepers.fetch_add(1, std::memory_order_seq_cst);
  FutexWait(counter.value, seen, std::min(kSleep, options_.step_timeout));
  counter.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

// Returns the reason why `peer` will never advance `counter` to `number`; OK if `peer` has advanced
// `counter`, or still may.
absl::Status RankBoard::CheckPeer(const Counter& counter, int peer, uint32_t number) {
  if (aborted_.load(std::memory_order_acquire)) return AbortReason();
  if (*first_failed_ != 0) return AnotherFailed();
  const uint32_t farewell = lines_[peer].farewell.load(std::memory_order_acquire);
  const bool died = farewell == kNone && Died(peer);
  // The peer may have advanced the counter before it left.
  const bool reached = Reached(counter.value.load(std::memory_order_acquire), number);
  if ((farewell == kNone && !died) || reached) return absl::OkStatus();
  if (farewell == kWritten) return LastWords(peer);
  return Suspecting(
      absl::UnavailableError(absl::StrCat(options_.members[rank()], " lost ", options_.members[peer], " ",
                                          Doing(), ": its process ended, or closed the shared memory")),
      options_.members[peer]);
}

absl::Status RankBoard::CheckNotices() {
  checked_notices_ = true;
  for (int peer = 0; peer < world_size(); ++peer) {
    const Notice notice = lines_[peer].notices[step_ % 2];
    Notice expected = notice_;
    expected.frame.rank = static_cast<uint32_t>(peer);
    if (notice != expected) return Fail(Mismatch(notice.frame));
  }
  return absl::OkStatus();
}

absl::Status RankBoard::Mismatch(const Frame& peers) const {
  return absl::InvalidArgumentError(
      absl::StrCat("[", FrameText(peers), "] does not match [", FrameText(notice_.frame),
                   "]: every rank must call the same collectives with the same counts in the same order"));
}

std::string RankBoard::Doing() const {
  if (notice_.frame.kind == FrameKind::kMessage) return absl::StrCat("in [", FrameText(notice_.frame), "]");
  return absl::StrCat("in collective ", step_, " [", FrameText(notice_.frame), "]");
}

// The error of a wait that timed out. For a message, the error names `peer`. For a collective, the error
// names the rank with the fewest posts, because the other ranks are waiting, too.
absl::Status RankBoard::SilenceError(int peer) const {
  const auto lead = [this](int rank) { return static_cast<int32_t>(lines_[rank].posts.value - posts_); };
  int silent = peer;
  for (int rank = 0; rank < world_size() && notice_.frame.kind != FrameKind::kMessage; ++rank) {
    if (lead(rank) < lead(silent)) silent = rank;
  }
  return Suspecting(absl::DeadlineExceededError(absl::StrCat(
                        options_.members[rank()], " waited ", ToSeconds(options_.step_timeout), " s for ",
                        options_.members[silent], " ", Doing(),
                        ": that process may be stopped or overloaded; its log shows what it did last")),
                    options_.members[silent]);
}

bool RankBoard::Died(int peer) {
  pollfd polled = {.fd = processes_[peer].get(), .events = POLLIN, .revents = 0};
  return polled.fd >= 0 && poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0;
}

// If the kernel cannot watch processes (before Linux 5.3), a rank notices a peer's death only when its wait
// times out.
void RankBoard::WatchPeers() {
  for (int peer = 0; peer < world_size(); ++peer) {
    const int32_t process = lines_[peer].process;
    processes_.emplace_back(process > 0 ? static_cast<int>(syscall(SYS_pidfd_open, process, 0)) : -1);
  }
}

absl::Status RankBoard::Fail(const absl::Status& error) {
  // The error is published before first_failed_ is set to this rank. So a rank that reads first_failed_ finds
  // the error at once, even if this rank is stopped or killed at any moment.
  const bool said = *first_failed_ == 0 && SayLastWords(error);
  int32_t none = 0;
  if (lines_[rank()].farewell == kWritten) first_failed_->compare_exchange_strong(none, rank() + 1);
  WakeAll();
  const int first = *first_failed_ - 1;
  // An interrupted rank has left, and reports no error to the other ranks.
  if (const absl::Status interrupted = InterruptReason(); !interrupted.ok()) {
    broken_ = interrupted;
  } else {
    broken_ = said && first == rank() ? error : LastWords(first);
  }
  return broken_;
}

absl::Status RankBoard::LastWords(int peer) const {
  const Line& line = lines_[peer];
  const size_t bytes = std::min<size_t>(line.message_bytes, line.message.size());
  return ErrorOf(Frame{.status_code = line.code}, absl::string_view(line.message.data(), bytes));
}

// `words` is OK if the rank leaves without an error.
bool RankBoard::SayLastWords(const absl::Status& words) {
  MutexLock lock(mu_);
  if (said_last_words_) return false;
  said_last_words_ = true;
  Line& line = lines_[rank()];
  if (words.ok()) {
    line.farewell.store(kLeft, std::memory_order_release);
    return true;
  }
  line.code = static_cast<uint32_t>(words.code());
  line.message_bytes = static_cast<uint32_t>(std::min<size_t>(words.message().size(), line.message.size()));
  std::copy_n(words.message().begin(), line.message_bytes, line.message.begin());
  line.farewell.store(kWritten, std::memory_order_release);
  return true;
}

// Wakes every rank that sleeps on the board, whichever counter it sleeps on.
void RankBoard::WakeAll() const {
  const auto wake = [](Counter& counter) {
    if (counter.sleepers.load(std::memory_order_seq_cst) != 0) FutexWake(counter.value);
  };
  for (int peer = 0; peer < world_size(); ++peer) wake(lines_[peer].posts);
  for (int channel = 0; channel < world_size() * world_size(); ++channel) {
    wake(channels_[channel].posted);
    wake(channels_[channel].taken);
  }
}

absl::Status RankBoard::AbortReason() {
  absl::Status interrupted = InterruptReason();
  return interrupted.ok() ? LastWords(rank()) : interrupted;
}

absl::Status RankBoard::InterruptReason() {
  MutexLock lock(mu_);
  return interrupt_reason_;
}

void RankBoard::Interrupt(const absl::Status& reason) {
  {
    MutexLock lock(mu_);
    if (interrupt_reason_.ok()) interrupt_reason_ = reason;
  }
  SayLastWords(absl::OkStatus());
  aborted_.store(true, std::memory_order_release);
  WakeAll();
}

void RankBoard::Abort(const absl::Status& reason) {
  SayLastWords(Annotate(reason, absl::StrCat(options_.members[rank()], " gave up")));
  aborted_.store(true, std::memory_order_release);
  WakeAll();
}

}  // namespace tethys
