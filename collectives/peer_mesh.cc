#include "collectives/peer_mesh.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "collectives/suspect.h"

namespace tethys {
namespace {

// A failed rank tries for this time, or for the step timeout if that is shorter, to send its error to the
// other ranks.
// Usually the error is sent at once: another rank either is reading, or is computing and has free space in
// its socket buffer. On a busy machine the other ranks may be slow to read.
constexpr Nanoseconds kFarewellTime = 2 * kSecond;
// The number of passes over all peers without progress after which the thread sleeps. After each
// earlier pass, the thread yields to other ranks on this core.
constexpr int kIdleTurns = 4;

// Reads and discards all data in the socket. Returns an error once the peer has closed the connection.
absl::Status Discard(SecureSocket& socket) {
  std::array<char, 64 * 1024> bytes;
  while (true) {
    iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
    TETHYS_ASSIGN_OR_RETURN(const int64_t received, socket.Receive({&part, 1}));
    if (received == 0) return absl::OkStatus();
  }
}

}  // namespace

PeerMesh::PeerMesh(RingOptions options, std::vector<RingConnection> connections, WakeUp abort)
    : options_(std::move(options)),
      clock_(*options_.clock),
      abort_(std::move(abort)),
      peers_(connections.size()) {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].socket = std::move(connections[rank].socket);
    peers_[rank].incarnation = connections[rank].incarnation;
    // No checksums with TLS, which verifies integrity itself.
    peers_[rank].sender.SetChecksums(
        options_.tls == nullptr &&
        (!IsLoopback(options_.members[rank].address) || options_.checksums_on_loopback));
    if (peers_[rank].socket.valid() && options_.send_buffer_bytes > 0) {
      SetSendBuffer(peers_[rank].socket.fd(), static_cast<int>(options_.send_buffer_bytes));
    }
  }
  polled_.reserve(peers_.size() + 1);
  polled_ranks_.reserve(peers_.size() + 1);
}

absl::Status PeerMesh::Begin(FrameKind kind, FrameDType dtype, int64_t count, uint32_t parts_hash) {
  TETHYS_RETURN_IF_ERROR(CheckUsable());
  header_ = {.kind = kind,
             .dtype = dtype,
             .generation = options_.generation,
             .group = options_.group,
             .rank = static_cast<uint32_t>(options_.rank),
             .incarnation = options_.incarnation,
             .step = ++step_,
             .range_count = static_cast<uint64_t>(count),
             .parts_hash = parts_hash};
  return absl::OkStatus();
}

absl::Status PeerMesh::BeginMessage(int from, int to, int64_t bytes) {
  TETHYS_RETURN_IF_ERROR(CheckUsable());
  header_ = {.kind = FrameKind::kMessage,
             .dtype = FrameDType::kBytes,
             .generation = options_.generation,
             .group = options_.group,
             .rank = static_cast<uint32_t>(options_.rank),
             .incarnation = options_.incarnation,
             .step = from == options_.rank ? ++peers_[to].messages_out : ++peers_[from].messages_in,
             .range_count = static_cast<uint64_t>(bytes)};
  return absl::OkStatus();
}

absl::Status PeerMesh::CheckUsable() {
  if (!broken_.ok()) return broken_;
  if (aborted_.load(std::memory_order_acquire)) return Fail(AbortReason());
  return absl::OkStatus();
}

void PeerMesh::Send(int peer, absl::Span<const Piece> pieces, int64_t available) {
  peers_[peer].sender.Start(header_, pieces, available);
}

void PeerMesh::Receive(int peer, absl::Span<const Piece> pieces) {
  peers_[peer].receiver.Start(header_, peer, peers_[peer].incarnation, pieces);
}

absl::Status PeerMesh::Move(int from, int to) {
  last_progress_ = clock_.Now();
  said_waiting_ = false;
  int idle_turns = 0;
  while (true) {
    const absl::StatusOr<Turn> turn = Pump(from, to);
    if (!turn.ok()) return Fail(turn.status());
    if (turn->finished) return absl::OkStatus();
    if (turn->moved) {
      idle_turns = 0;
    } else if (++idle_turns <= kIdleTurns) {
      sched_yield();
    } else if (const absl::Status waited = Wait(); !waited.ok()) {
      return Fail(waited);
    }
  }
}

absl::StatusOr<PeerMesh::Turn> PeerMesh::Pump(int from, int to) {
  Turn turn;
  for (int rank = 0; rank < world_size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.finished()) continue;
    const absl::StatusOr<int64_t> sent = peer.sender.Pump(peer.socket);
    if (!sent.ok()) return ExplainSend(rank, sent.status());
    const absl::StatusOr<FrameReceiver::Received> received = peer.receiver.Pump(peer.socket);
    if (!received.ok()) return Explain(rank, received.status());
    if (rank == from) peers_[to].sender.MakeAvailable(received->ready);

    traffic_.bytes_out += *sent;
    traffic_.bytes_in += received->bytes;
    turn.moved = turn.moved || *sent + received->bytes + received->ready > 0;
    // A header without payload is no progress, because it only says that the peer is alive.
    if (std::max(*sent, received->bytes) > kFrameBytes) last_progress_ = clock_.Now();
  }
  // `finished` is set after the loop, because data from one peer may have to be sent to another peer.
  for (const Peer& peer : peers_) turn.finished = turn.finished && peer.finished();
  return turn;
}

absl::Status PeerMesh::Wait() {
  TETHYS_ASSIGN_OR_RETURN(const Nanoseconds until, CheckPatience());
  polled_.assign(1, {.fd = abort_.fd(), .events = POLLIN, .revents = 0});
  polled_ranks_.assign(1, -1);
  for (int rank = 0; rank < world_size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (peer.finished()) continue;
    short events = POLLRDHUP;
    if (!peer.receiver.finished()) events |= POLLIN;
    if (peer.sender.blocked()) events |= POLLOUT;
    polled_.push_back({.fd = peer.socket.fd(), .events = events, .revents = 0});
    polled_ranks_.push_back(rank);
  }
  TETHYS_RETURN_IF_ERROR(PollUntil(until));
  if (polled_[0].revents != 0) return AbortReason();
  for (size_t i = 1; i < polled_.size(); ++i) {
    // If this rank still expects data from the peer, the next receive reports the reason.
    const int rank = polled_ranks_[i];
    if ((polled_[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 && peers_[rank].receiver.finished()) {
      return ExplainSend(rank, absl::UnavailableError("the connection was closed"));
    }
  }
  return absl::OkStatus();
}

absl::Status PeerMesh::PollUntil(Nanoseconds until) {
  const Nanoseconds left = std::max<Nanoseconds>(until - clock_.Now(), 0);
  const timespec timeout = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
  if (ppoll(polled_.data(), polled_.size(), &timeout, nullptr) < 0 && errno != EINTR) {
    return ErrnoStatus(errno, "cannot poll");
  }
  return absl::OkStatus();
}

absl::StatusOr<Nanoseconds> PeerMesh::CheckPatience() {
  const Nanoseconds patience = options_.step_timeout;
  Nanoseconds stalled = clock_.Now() - last_progress_;
  if (stalled >= patience / 2 && options_.peers_compute && options_.peers_compute()) {
    last_progress_ += stalled;
    stalled = 0;
  }
  if (!said_waiting_ && stalled >= patience / 2) {
    said_waiting_ = true;
    for (Peer& peer : peers_) peer.sender.SayWaiting();
    return last_progress_;  // This time is past, so the empty frames are sent at once.
  }
  if (stalled < patience) return last_progress_ + (said_waiting_ ? patience : patience / 2);
  int silent = -1;
  int waiting = -1;
  int takes_nothing = -1;
  for (int rank = world_size() - 1; rank >= 0; --rank) {
    const Peer& peer = peers_[rank];
    if (!peer.sender.finished()) takes_nothing = rank;
    if (!peer.receiver.finished()) (peer.receiver.peer_waits() ? waiting : silent) = rank;
  }
  if (silent >= 0) return SilenceError(silent);
  // All peers that this rank still needs are waiting, too. One of these peers waits directly for the rank
  // that is silent, and will report the silent rank.
  const Nanoseconds last_resort = last_progress_ + patience + patience / 2;
  if (clock_.Now() < last_resort) return last_resort;
  return SilenceError(waiting >= 0 ? waiting : takes_nothing);
}

absl::Status PeerMesh::SilenceError(int peer) const {
  return Suspecting(
      absl::DeadlineExceededError(absl::StrCat(
          "rank ", options_.rank, " waited ", ToSeconds(options_.step_timeout), " s for ",
          options_.MemberText(peer), " ", Doing(),
          ": that process may be stopped, overloaded or cut off; its log shows what it did last")),
      options_.MemberText(peer));
}

std::string PeerMesh::Doing() const {
  if (header_.kind == FrameKind::kMessage) return absl::StrCat("in [", FrameText(header_), "]");
  return absl::StrCat("in collective ", step_, " [", FrameText(header_), "]");
}

absl::Status PeerMesh::Explain(int peer, const absl::Status& error) {
  if (peers_[peer].receiver.peer_failed()) return error;
  if (error.code() != absl::StatusCode::kUnavailable) return Annotate(error, options_.MemberText(peer));
  // The peer may have failed in the middle of a frame to this rank, where it cannot insert its error. Other
  // ranks may have got the error and pass it on.
  for (int rank = 0; rank < world_size(); ++rank) {
    Peer& other = peers_[rank];
    if (rank == peer || !other.socket.valid()) continue;
    if (other.receiver.finished()) Receive(rank, {});
    const absl::Status told = other.receiver.Pump(other.socket).status();
    if (other.receiver.peer_failed() && !told.ok()) return told;
  }
  return Suspecting(absl::UnavailableError(absl::StrCat(
                        "rank ", options_.rank, " lost ", options_.MemberText(peer), " ", Doing(), ": ",
                        error.message(), "; its process ended or its host is gone")),
                    options_.MemberText(peer));
}

absl::Status PeerMesh::ExplainSend(int peer, const absl::Status& error) {
  FrameReceiver& receiver = peers_[peer].receiver;
  while (true) {
    if (receiver.finished()) Receive(peer, {});
    const absl::StatusOr<FrameReceiver::Received> received = receiver.Pump(peers_[peer].socket);
    if (!received.ok()) return Explain(peer, received.status());
    if (received->bytes == 0 && received->ready == 0) return Explain(peer, error);
  }
}

absl::Status PeerMesh::Fail(const absl::Status& error) {
  broken_ = error;
  if (absl::Status interrupted = InterruptReason(); !interrupted.ok()) return broken_ = interrupted;
  const Nanoseconds until = clock_.Now() + std::min(kFarewellTime, options_.step_timeout);
  for (Peer& peer : peers_) {
    if (peer.socket.valid()) peer.sender.StartError(header_, error);
  }
  do {
    polled_.clear();
    for (Peer& peer : peers_) {
      if (!peer.socket.valid() || peer.sender.finished() || !peer.sender.Pump(peer.socket).ok()) continue;
      // Discards input, so that two failed ranks with full sockets do not wait for each other.
      if (!peer.sender.blocked() || !Discard(peer.socket).ok()) continue;
      polled_.push_back({.fd = peer.socket.fd(), .events = POLLIN | POLLOUT, .revents = 0});
    }
    if (polled_.empty() || !PollUntil(until).ok()) break;
  } while (clock_.Now() < until);
  // The sockets are only shut down. Closing them would discard data that a slow peer has not read yet.
  for (Peer& peer : peers_) {
    if (peer.socket.valid()) shutdown(peer.socket.fd(), SHUT_WR);
  }
  return broken_;
}

void PeerMesh::Abort(const absl::Status& reason) {
  {
    MutexLock lock(mu_);
    if (abort_reason_.ok()) abort_reason_ = reason;
  }
  aborted_.store(true, std::memory_order_release);
  abort_.Signal();
}

// Shutting the sockets down ends everything that this rank's thread may be doing at this time: its next send
// or receive fails, even if data arrive all the time, and a farewell to a peer that does not read ends at
// once.
void PeerMesh::Interrupt(const absl::Status& reason) {
  {
    MutexLock lock(mu_);
    if (interrupt_reason_.ok()) interrupt_reason_ = reason;
  }
  aborted_.store(true, std::memory_order_release);
  for (const Peer& peer : peers_) {
    if (peer.socket.valid()) shutdown(peer.socket.fd(), SHUT_RDWR);
  }
  abort_.Signal();
}

absl::Status PeerMesh::AbortReason() {
  MutexLock lock(mu_);
  if (!interrupt_reason_.ok()) return interrupt_reason_;
  return Annotate(abort_reason_, absl::StrCat(options_.MemberText(options_.rank), " gave up"));
}

absl::Status PeerMesh::InterruptReason() {
  MutexLock lock(mu_);
  return interrupt_reason_;
}

}  // namespace tethys
