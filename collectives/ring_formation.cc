#include "collectives/ring_formation.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "collectives/frame_link.h"
#include "collectives/suspect.h"
#include "runtime/base/logging.h"
#include "runtime/base/socket.h"
#include "runtime/cluster/handshake.h"
#include "runtime/tensor/frame.h"

namespace tethys {
namespace {

constexpr uint64_t kMaxMessageBytes = 4096;         // A handshake has about 200 bytes.
constexpr Nanoseconds kKnockTimeout = 5 * kSecond;  // A caller must authenticate within this time.
constexpr Nanoseconds kRetryDelay = 50 * kMillisecond;
constexpr int kMaxCallers = 64;  // With more callers, the caller that has waited longest is dropped.

struct Message {
  Frame frame;
  std::string payload;
};

// A connection whose peer is not authenticated yet.
struct Knock {
  enum class Awaits { kConnect, kSecurity, kChallenge, kWelcome, kProof };

  SecureSocket socket;
  Awaits awaits = Awaits::kSecurity;
  int rank = -1;       // The rank that we called; -1 if the peer called us.
  uint64_t nonce = 0;  // The nonce that the peer's proof must cover.
  Nanoseconds expires = 0;
  std::string inbox = {};
};

// Returns the next message once it is complete. Never reads beyond the message, because later bytes belong to
// the communicator.
absl::StatusOr<std::optional<Message>> ReceiveMessage(Knock& knock) {
  while (true) {
    int64_t wanted = kFrameBytes;
    Message message;
    if (static_cast<int64_t>(knock.inbox.size()) >= kFrameBytes) {
      TETHYS_ASSIGN_OR_RETURN(message.frame, Frame::Decode(knock.inbox.data(), kFrameBytes));
      if (message.frame.payload_bytes > kMaxMessageBytes) {
        return absl::InvalidArgumentError(absl::StrCat("a message of ", message.frame.payload_bytes,
                                                       " bytes before the handshake is too long"));
      }
      wanted += static_cast<int64_t>(message.frame.payload_bytes);
    }
    const auto have = static_cast<int64_t>(knock.inbox.size());
    if (have == wanted) {
      message.payload = knock.inbox.substr(kFrameBytes);
      knock.inbox.clear();
      return message;
    }
    knock.inbox.resize(wanted);
    iovec part = {.iov_base = knock.inbox.data() + have, .iov_len = static_cast<size_t>(wanted - have)};
    const absl::StatusOr<int64_t> received = knock.socket.Receive({&part, 1});
    knock.inbox.resize(have + received.value_or(0));
    if (!received.ok()) return received.status();
    if (*received == 0) return std::nullopt;
  }
}

class RingFormation {
 public:
  // `wake` becomes readable when options.interruption is raised.
  RingFormation(int listener, const RingOptions& options, int wake)
      : listener_(listener),
        options_(options),
        wake_(wake),
        world_(options.world()),
        deadline_(options.clock->Now() + options.connect_timeout),
        connections_(world_),
        retry_at_(world_, 0),
        last_error_(world_) {}

  absl::StatusOr<std::vector<RingConnection>> Run() {
    while (!Complete()) {
      if (options_.interruption != nullptr) TETHYS_RETURN_IF_ERROR(options_.interruption->Check());
      const Nanoseconds now = options_.clock->Now();
      if (now >= deadline_) return TimeoutError();
      CallLowerRanks(now);
      DropExpired(now);
      TETHYS_RETURN_IF_ERROR(WaitAndServe(now));
    }
    return std::move(connections_);
  }

 private:
  bool Missing(int rank) const { return rank != options_.rank && !connections_[rank].socket.valid(); }

  bool Complete() const {
    for (int rank = 0; rank < world_; ++rank) {
      if (Missing(rank)) return false;
    }
    return true;
  }

  void CallLowerRanks(Nanoseconds now) {
    for (int rank = 0; rank < options_.rank; ++rank) {
      const bool calling = std::any_of(knocks_.begin(), knocks_.end(),
                                       [rank](const Knock& knock) { return knock.rank == rank; });
      if (!Missing(rank) || calling || now < retry_at_[rank]) continue;
      absl::StatusOr<HostPort> address = ParseHostPort(options_.members[rank].address);
      TETHYS_CHECK(address.ok());
      absl::StatusOr<FileDescriptor> fd = StartConnectTcp(*address);
      if (!fd.ok()) {
        CallLater(rank, fd.status());
        continue;
      }
      // The called rank may take long to answer, so the connection attempt expires only at the deadline of
      // the formation.
      knocks_.push_back({.socket = SecureSocket(*std::move(fd), options_.tls, SecureSocket::End::kCaller),
                         .awaits = Knock::Awaits::kConnect,
                         .rank = rank,
                         .expires = deadline_});
    }
  }

  void CallLater(int rank, const absl::Status& why) {
    last_error_[rank] = why;
    retry_at_[rank] = options_.clock->Now() + kRetryDelay;
  }

  void DropExpired(Nanoseconds now) {
    knocks_.remove_if([now](const Knock& knock) { return knock.expires <= now; });
  }

  absl::Status WaitAndServe(Nanoseconds now) {
    std::vector<pollfd> polled = {{.fd = listener_, .events = POLLIN, .revents = 0},
                                  {.fd = wake_, .events = POLLIN, .revents = 0}};
    Nanoseconds until = deadline_;
    for (const Knock& knock : knocks_) {
      const short events = knock.awaits == Knock::Awaits::kConnect    ? POLLOUT
                           : knock.awaits == Knock::Awaits::kSecurity ? knock.socket.awaits()
                                                                      : POLLIN;
      polled.push_back({.fd = knock.socket.fd(), .events = events, .revents = 0});
      until = std::min(until, knock.expires);
    }
    for (const Nanoseconds retry : retry_at_) {
      if (retry > now) until = std::min(until, retry);
    }
    const int milliseconds = static_cast<int>((until - now + kMillisecond - 1) / kMillisecond);
    if (poll(polled.data(), polled.size(), milliseconds) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "cannot poll");
    }
    size_t i = 2;
    for (auto it = knocks_.begin(); it != knocks_.end(); ++i) {
      const auto knock = it++;
      if (polled[i].revents != 0) TETHYS_RETURN_IF_ERROR(Serve(knock));
    }
    return (polled[0].revents & POLLIN) != 0 ? AcceptCallers() : absl::OkStatus();
  }

  absl::Status AcceptCallers() {
    while (true) {
      TETHYS_ASSIGN_OR_RETURN(FileDescriptor fd, AcceptTcp(listener_));
      if (!fd.valid()) return absl::OkStatus();
      Knock knock{.socket = SecureSocket(std::move(fd), options_.tls, SecureSocket::End::kCalled),
                  .nonce = RandomNonce(),
                  .expires = options_.clock->Now() + kKnockTimeout};
      if (!GreetCaller(knock).ok()) continue;
      const auto is_caller = [](const Knock& other) { return other.rank < 0; };
      if (std::count_if(knocks_.begin(), knocks_.end(), is_caller) >= kMaxCallers) {
        knocks_.erase(std::find_if(knocks_.begin(), knocks_.end(), is_caller));
      }
      knocks_.push_back(std::move(knock));
    }
  }

  // Secures the connection, then sends the challenge that the caller must answer.
  absl::Status GreetCaller(Knock& knock) {
    TETHYS_ASSIGN_OR_RETURN(const bool secured, knock.socket.Handshake());
    if (!secured) return absl::OkStatus();
    knock.awaits = Knock::Awaits::kProof;
    Frame challenge = OwnFrame(FrameKind::kChallenge);
    challenge.sequence = knock.nonce;
    return SendMessage(knock, challenge, "");
  }

  // Advances the handshake by one step. An error ends the forming of the ring; a refused caller is no error.
  absl::Status Serve(std::list<Knock>::iterator knock) {
    const absl::Status status = knock->rank < 0 ? ServeCaller(*knock) : ServeCalled(*knock);
    const bool connected = status.ok() && !knock->socket.valid();
    if (status.ok() && !connected) return status;
    const int called = knock->rank;
    if (called < 0 && !status.ok()) {
      if (status != last_refusal_) TETHYS_LOG(Warning, "refused a caller: ", StatusText(status));
      last_refusal_ = status;
    }
    knocks_.erase(knock);
    if (status.ok() || called < 0) return absl::OkStatus();
    // The called rank was not listening yet, or is still forming another group, so this rank calls again
    // later.
    if (status.code() == absl::StatusCode::kUnavailable) {
      CallLater(called, status);
      return absl::OkStatus();
    }
    return Annotate(status, options_.MemberText(called));
  }

  absl::Status ServeCaller(Knock& knock) {
    if (knock.awaits == Knock::Awaits::kSecurity) return GreetCaller(knock);
    TETHYS_ASSIGN_OR_RETURN(const std::optional<Message> message, ReceiveMessage(knock));
    if (!message.has_value()) return absl::OkStatus();
    const absl::StatusOr<RankClaim> caller = CheckProof(knock, *message);
    absl::Status status = caller.status();
    if (status.ok() && (caller->rank <= options_.rank || caller->rank >= world_)) {
      status = absl::FailedPreconditionError(
          absl::StrCat("rank ", caller->rank, " must not call rank ", options_.rank, " in a world of ",
                       world_, ": the ranks were given different lists of addresses"));
    }
    if (!status.ok()) {
      Frame refusal = OwnFrame(FrameKind::kError);
      refusal.status_code = static_cast<uint32_t>(status.code());
      SendMessage(knock, refusal, std::string(status.message())).IgnoreError();
      return status;
    }
    TETHYS_RETURN_IF_ERROR(SendProof(knock, message->frame.sequence));
    Connect(knock, *caller);
    return absl::OkStatus();
  }

  absl::Status ServeCalled(Knock& knock) {
    if (knock.awaits == Knock::Awaits::kConnect) {
      if (const absl::Status connected = ConnectResult(knock.socket.fd()); !connected.ok()) {
        return absl::UnavailableError(connected.message());
      }
      knock.awaits = Knock::Awaits::kSecurity;
    }
    if (knock.awaits == Knock::Awaits::kSecurity) {
      TETHYS_ASSIGN_OR_RETURN(const bool secured, knock.socket.Handshake());
      if (secured) knock.awaits = Knock::Awaits::kChallenge;
      return absl::OkStatus();
    }
    TETHYS_ASSIGN_OR_RETURN(const std::optional<Message> message, ReceiveMessage(knock));
    if (!message.has_value()) return absl::OkStatus();
    if (message->frame.kind == FrameKind::kError) {
      return ErrorOf(message->frame, absl::StrCat("refused this rank: ", message->payload));
    }
    if (knock.awaits == Knock::Awaits::kChallenge) {
      if (message->frame.kind != FrameKind::kChallenge) {
        return absl::InvalidArgumentError(
            absl::StrCat("sent ", FrameText(message->frame), " instead of a challenge"));
      }
      knock.nonce = RandomNonce();
      knock.awaits = Knock::Awaits::kWelcome;
      return SendProof(knock, message->frame.sequence);
    }
    TETHYS_ASSIGN_OR_RETURN(const RankClaim called, CheckProof(knock, *message));
    if (called.rank != knock.rank) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", called.rank, " answers at ", options_.members[knock.rank].address, ", where rank ",
          knock.rank, " was expected: the ranks were given different lists of addresses"));
    }
    Connect(knock, called);
    return absl::OkStatus();
  }

  absl::StatusOr<RankClaim> CheckProof(const Knock& knock, const Message& message) const {
    if (message.frame.kind != FrameKind::kHandshake) {
      return absl::UnauthenticatedError("the caller sent no handshake");
    }
    TETHYS_ASSIGN_OR_RETURN(const RankClaim claim,
                            options_.authenticator->Check(message.payload, knock.nonce, options_.generation));
    // A rank whose connections are complete may form its next group while its peers still form this one.
    if (message.frame.group != options_.group) {
      return absl::UnavailableError(absl::StrCat("the caller forms group ", message.frame.group,
                                                 ", but this ring is group ", options_.group,
                                                 ": the caller must call again later"));
    }
    TETHYS_RETURN_IF_ERROR(CheckCertificate(knock, claim.rank));
    return claim;
  }

  absl::Status CheckCertificate(const Knock& knock, int rank) const {
    if (options_.tls == nullptr) return absl::OkStatus();
    const std::string shown = knock.socket.peer_name();
    const std::string expected =
        rank >= 0 && rank < world_ ? options_.members[rank].certificate : "no member";
    if (shown == expected) return absl::OkStatus();
    return absl::UnauthenticatedError(absl::StrCat("the caller says that it is rank ", rank, " (", expected,
                                                   "), but its certificate is of ", shown));
  }

  // Sends this rank's proof over `nonce` and, if this rank called, a nonce for the peer's proof.
  absl::Status SendProof(Knock& knock, uint64_t nonce) {
    const RankClaim own{
        .rank = options_.rank, .incarnation = options_.incarnation, .generation = options_.generation};
    Frame frame = OwnFrame(FrameKind::kHandshake);
    frame.sequence = knock.nonce;
    return SendMessage(knock, frame, options_.authenticator->Prove(own, nonce));
  }

  Frame OwnFrame(FrameKind kind) const {
    return {.kind = kind,
            .dtype = FrameDType::kNone,
            .generation = options_.generation,
            .group = options_.group,
            .rank = static_cast<uint32_t>(options_.rank),
            .incarnation = options_.incarnation};
  }

  // The short message fits into the socket's buffer unless the peer reads nothing. In that case the
  // connection is given up.
  static absl::Status SendMessage(Knock& knock, Frame frame, const std::string& payload) {
    frame.payload_bytes = payload.size();
    std::string bytes(kFrameBytes, '\0');
    frame.EncodeTo(bytes.data());
    bytes += payload;
    iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
    TETHYS_ASSIGN_OR_RETURN(const int64_t sent, knock.socket.Send({&part, 1}));
    if (sent == static_cast<int64_t>(bytes.size())) return absl::OkStatus();
    return absl::UnavailableError("the connection accepts no more data, so the peer reads nothing");
  }

  // A rank that calls again has lost its earlier connection, so the new connection replaces the earlier one.
  void Connect(Knock& knock, const RankClaim& peer) {
    connections_[peer.rank] = {.socket = std::move(knock.socket), .incarnation = peer.incarnation};
  }

  absl::Status TimeoutError() const {
    std::vector<std::string> missing;
    int last_missing = 0;
    for (int rank = 0; rank < world_; ++rank) {
      if (!Missing(rank)) continue;
      last_missing = rank;
      const RingMember& member = options_.members[rank];
      missing.push_back(absl::StrCat(
          options_.MemberText(rank), member.name.empty() ? "" : absl::StrCat(" at ", member.address),
          last_error_[rank].ok() ? "" : absl::StrCat(" [", last_error_[rank].message(), "]")));
    }
    const absl::Status late = absl::DeadlineExceededError(absl::StrCat(
        "rank ", options_.rank, " waited ", ToSeconds(options_.connect_timeout), " s to connect with ",
        absl::StrJoin(missing, ", "),
        ": each of these ranks must be reachable at its address, so look for a firewall or a missing ",
        "route (tethys hosts check tests all links)",
        last_refusal_.ok() ? "" : absl::StrCat("; the last caller was refused: ", last_refusal_.message())));
    return missing.size() == 1 ? Suspecting(late, options_.MemberText(last_missing)) : late;
  }

  const int listener_;
  const RingOptions& options_;
  const int wake_;
  const int world_;
  const Nanoseconds deadline_;

  std::vector<RingConnection> connections_;
  std::list<Knock> knocks_;
  // The time of the next call to each rank that we call; indexed by rank.
  std::vector<Nanoseconds> retry_at_;
  std::vector<absl::Status> last_error_;  // The error of our last call to each rank; indexed by rank.
  absl::Status last_refusal_;
};

}  // namespace

absl::StatusOr<std::vector<RingConnection>> FormRing(int listener, const RingOptions& options) {
  TETHYS_ASSIGN_OR_RETURN(const WakeUp wake, WakeUp::Create());
  const Interruption::Watch watch(options.interruption, [&wake](const absl::Status&) { wake.Signal(); });
  return RingFormation(listener, options, wake.fd()).Run();
}

}  // namespace tethys
