#include "collectives/ring_communicator.h"

#include <algorithm>
#include <utility>

#include "collectives/block_cut.h"
#include "collectives/calls.h"
#include "collectives/peer_mesh.h"
#include "collectives/ring_formation.h"
#include "collectives/vector_sum.h"
#include "runtime/base/random.h"
#include "runtime/base/socket.h"

namespace tethys {
namespace {

constexpr int64_t kMaxSendBufferBytes = 1 << 30;
constexpr int64_t kFloatBytes = sizeof(float);
// Gathers of up to this size take one hop (block_cut.h).
constexpr int64_t kDirectBytes = kDirectElements * kFloatBytes;

// The group id of the `number`-th communicator that is split from group `parent`. A hash, so that groups
// which are split further do not share ids.
uint32_t GroupOfSplit(uint32_t parent, uint32_t number) {
  const uint32_t ids[] = {parent, number};
  return static_cast<uint32_t>(Fnv1a(ids, sizeof(ids)));
}

// Invariants:
// 1. In every collective every rank sends a frame to its right neighbour and awaits one from its left, so
// ranks that are in different collectives detect this at once.
// 2. The order of additions of an element depends only on the world size, the count and the element's index.
// 3. Messages between two ranks are streams on the same connection as collectives, but are numbered
// separately.
class RingCommunicator final : public Communicator {
 public:
  RingCommunicator(RingListener& listener, RingOptions options, std::vector<RingConnection> connections,
                   WakeUp abort)
      : listener_(listener),
        rank_(options.rank),
        world_(static_cast<int>(connections.size())),
        mesh_(std::move(options), std::move(connections), std::move(abort)),
        direct_(world_ > 1 ? world_ * kDirectElements : 0),
        watch_(mesh_.options().interruption, [this](const absl::Status& reason) { Interrupt(reason); }) {
    arriving_.reserve(2 * world_);
    leaving_.reserve(2 * world_);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_; }
  TrafficCount traffic() const override { return mesh_.traffic(); }
  void Abort(const absl::Status& reason) override { mesh_.Abort(reason); }
  void Interrupt(const absl::Status& reason) override {
    mesh_.Interrupt(reason);
    splits_interruption_.Raise(reason);
  }

  absl::Status AllReduce(absl::Span<float> data) override {
    return Reduce(FrameKind::kReduce, data, 2 * (world_ - 1));
  }

  absl::Status ReduceScatter(absl::Span<float> data) override {
    return Reduce(FrameKind::kReduceScatter, data, world_ - 1);
  }

  Range OwnedBlock(int rank, int64_t count) const override { return RingBlock(count, world_, rank); }

  absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) override {
    const auto bytes = static_cast<int64_t>(data.size());
    TETHYS_RETURN_IF_ERROR(CheckParts(parts, world_, bytes));
    TETHYS_RETURN_IF_ERROR(mesh_.Begin(FrameKind::kGather, FrameDType::kBytes, bytes, HashOf(parts)));
    if (world_ == 1) return absl::OkStatus();
    const auto piece = [&](int rank) {
      const Range& part = parts[InWorld(rank)];
      return Piece{.data = data.data() + part.begin, .bytes = part.count};
    };
    return bytes <= kDirectBytes ? GatherDirectly(piece) : PassAround(piece, world_ - 1, 0);
  }

  absl::Status Barrier() override {
    TETHYS_RETURN_IF_ERROR(mesh_.Begin(FrameKind::kBarrier, FrameDType::kNone, 0));
    for (int peer = 0; peer < world_; ++peer) {
      if (peer == rank_) continue;
      mesh_.Receive(peer, {});
      mesh_.Send(peer, {}, 0);
    }
    return mesh_.Move();
  }

  absl::Status Send(int peer, absl::Span<const char> data) override {
    const auto bytes = static_cast<int64_t>(data.size());
    TETHYS_RETURN_IF_ERROR(CheckPeer(peer, rank_, world_));
    TETHYS_RETURN_IF_ERROR(mesh_.BeginMessage(rank_, peer, bytes));
    const Piece whole{.data = const_cast<char*>(data.data()), .bytes = bytes};
    mesh_.Send(peer, {&whole, 1}, bytes);
    return mesh_.Move();
  }

  absl::Status Receive(int peer, absl::Span<char> data) override {
    const auto bytes = static_cast<int64_t>(data.size());
    TETHYS_RETURN_IF_ERROR(CheckPeer(peer, rank_, world_));
    TETHYS_RETURN_IF_ERROR(mesh_.BeginMessage(peer, rank_, bytes));
    const Piece whole{.data = data.data(), .bytes = bytes};
    mesh_.Receive(peer, {&whole, 1});
    return mesh_.Move();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour) override {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<int> colours, tethys::AllGather(*this, colour));
    RingOptions options = mesh_.options();
    options.group = GroupOfSplit(options.group, ++splits_);
    if (colour < 0) return nullptr;
    options.rank = static_cast<int>(std::count(colours.begin(), colours.begin() + rank_, colour));
    options.members.clear();
    for (int rank = 0; rank < world_; ++rank) {
      if (colours[rank] == colour) options.members.push_back(mesh_.options().members[rank]);
    }
    RingOptions forming = options;
    forming.interruption = &splits_interruption_;
    return Form(listener_, forming, std::move(options));
  }

  // Connects the ranks with the options `forming`; the communicator has the options `formed`.
  static absl::StatusOr<std::unique_ptr<Communicator>> Form(RingListener& listener,
                                                            const RingOptions& forming, RingOptions formed) {
    TETHYS_ASSIGN_OR_RETURN(WakeUp abort, WakeUp::Create());
    TETHYS_ASSIGN_OR_RETURN(std::vector<RingConnection> connections, FormRing(listener.fd(), forming));
    return std::make_unique<RingCommunicator>(listener, std::move(formed), std::move(connections),
                                              std::move(abort));
  }

 private:
  int Left() const { return InWorld(rank_ - 1); }
  int Right() const { return InWorld(rank_ + 1); }
  // `rank` modulo the world size; `rank` may be as low as -world.
  int InWorld(int rank) const { return (rank + world_) % world_; }

  absl::Status Reduce(FrameKind kind, absl::Span<float> data, int hops) {
    const auto count = static_cast<int64_t>(data.size());
    TETHYS_RETURN_IF_ERROR(mesh_.Begin(kind, FrameDType::kFloat32, count));
    if (world_ == 1) return absl::OkStatus();
    if (count <= kDirectElements) return ReduceDirectly(data.data(), count);
    const auto block = [&](int index) {
      const Range range = BlockOf(count, world_, InWorld(index));
      return Piece{.data = BytesOf(data).data() + range.begin * kFloatBytes,
                   .bytes = range.count * kFloatBytes};
    };
    return PassAround(block, hops, world_ - 1);
  }

  // Every rank sends the whole vector to every other rank and adds all vectors in rank order.
  absl::Status ReduceDirectly(float* data, int64_t count) {
    const auto slot = [this](int peer) { return direct_.data() + peer * kDirectElements; };
    for (int peer = 0; peer < world_; ++peer) {
      if (peer == rank_) continue;
      const Piece in{.data = reinterpret_cast<char*>(slot(peer)), .bytes = count * kFloatBytes};
      const Piece out{.data = reinterpret_cast<char*>(data), .bytes = count * kFloatBytes};
      mesh_.Receive(peer, {&in, 1});
      mesh_.Send(peer, {&out, 1}, out.bytes);
    }
    TETHYS_RETURN_IF_ERROR(mesh_.Move());
    for (int peer = 1; peer < rank_; ++peer) AddTo(slot(0), slot(peer), count);
    if (rank_ > 0) AddTo(data, slot(0), count);
    for (int peer = rank_ + 1; peer < world_; ++peer) AddTo(data, slot(peer), count);
    return absl::OkStatus();
  }

  // Every rank sends its part to every other rank.
  template <typename PartOf>
  absl::Status GatherDirectly(const PartOf& part) {
    const Piece out = part(rank_);
    for (int peer = 0; peer < world_; ++peer) {
      if (peer == rank_) continue;
      const Piece in = part(peer);
      mesh_.Receive(peer, {&in, 1});
      mesh_.Send(peer, {&out, 1}, out.bytes);
    }
    return mesh_.Move();
  }

  // Piece p starts at rank p and moves right, one rank in each hop. In the first `adding` hops every rank
  // adds its own part to the arriving piece; in the other hops, the arriving piece replaces the rank's part.
  // So in its first hop a rank sends its own piece; in later hops it sends only data that it has received,
  // and passes each chunk on as soon as the chunk has arrived. For -world < i < world, piece(i) returns this
  // rank's part of the piece whose number is i modulo the world size.
  //
  // All-reduce: n-1 adding hops complete the sum of block p at rank p-1; n-1 more hops spread the sum.
  // Reduce-scatter is the first half; an all-gather moves n-1 hops without adding.
  template <typename PieceOf>
  absl::Status PassAround(const PieceOf& piece, int hops, int adding) {
    arriving_.clear();
    leaving_.clear();
    for (int hop = 0; hop < hops; ++hop) {
      leaving_.push_back(piece((rank_ - hop) % world_));
      arriving_.push_back(piece((rank_ - hop - 1) % world_));
      arriving_.back().add = hop < adding;
    }
    mesh_.Receive(Left(), arriving_);
    mesh_.Send(Right(), leaving_, leaving_.front().bytes);
    return mesh_.Move(Left(), Right());
  }

  RingListener& listener_;
  const int rank_;
  const int world_;
  PeerMesh mesh_;
  std::vector<float> direct_;  // Buffer of kDirectElements elements per rank.
  std::vector<Piece> arriving_;
  std::vector<Piece> leaving_;
  uint32_t splits_ = 0;
  Interruption splits_interruption_;  // Ends the forming of a ring in Split.
  const Interruption::Watch watch_;   // Declared last: it uses the members above.
};

absl::Status CheckOptions(const RingOptions& options) {
  if (options.rank < 0 || options.rank >= options.world()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " is not in a ring of ", options.world(), " members"));
  }
  if (options.clock == nullptr) return absl::InvalidArgumentError("a ring needs a clock");
  if (options.authenticator == nullptr) return absl::InvalidArgumentError("a ring needs an authenticator");
  if (options.send_buffer_bytes < 0 || options.send_buffer_bytes > kMaxSendBufferBytes) {
    return absl::InvalidArgumentError(absl::StrCat("send_buffer_bytes is ", options.send_buffer_bytes,
                                                   ", not in [0, ", kMaxSendBufferBytes, "]"));
  }
  if (options.connect_timeout <= 0 || options.step_timeout <= 0) {
    return absl::InvalidArgumentError("connect_timeout and step_timeout of a ring must be positive");
  }
  for (int rank = 0; rank < options.world(); ++rank) {
    const RingMember& member = options.members[rank];
    TETHYS_RETURN_IF_ERROR(
        Annotate(ParseHostPort(member.address).status(), absl::StrCat("address of rank ", rank)));
    if (options.tls != nullptr && member.certificate.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, " has no certificate name, which TLS needs"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingListener>> RingListener::Listen(const std::string& bind_address) {
  TETHYS_ASSIGN_OR_RETURN(const HostPort bind, ParseListenAddress(bind_address));
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor fd, ListenTcp(bind));
  TETHYS_ASSIGN_OR_RETURN(const HostPort bound, LocalAddress(fd.get()));
  return std::unique_ptr<RingListener>(new RingListener(std::move(fd), HostPortText(bound)));
}

absl::StatusOr<std::unique_ptr<Communicator>> CreateRingCommunicator(RingListener& listener,
                                                                     RingOptions options) {
  TETHYS_RETURN_IF_ERROR(CheckOptions(options));
  return RingCommunicator::Form(listener, options, options);
}

}  // namespace tethys
