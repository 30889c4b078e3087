#include "collectives/ring_communicator.h"

#include <utility>

#include "collectives/block_cut.h"
#include "collectives/peer_mesh.h"
#include "collectives/ring_formation.h"
#include "collectives/vector_sum.h"
#include "runtime/base/socket.h"

namespace tethys {
namespace {

constexpr int64_t kMaxSendBufferBytes = 1 << 30;

// Invariants:
// 1. In every collective every rank sends a frame to its right neighbour and awaits one from its left, so
// ranks that are in different collectives detect this at once.
// 2. The order of additions depends on the world size, the count and the position alone.
class RingCommunicator final : public Communicator {
 public:
  RingCommunicator(RingOptions options, std::vector<RingConnection> connections, WakeUp abort)
      : rank_(options.rank),
        world_(static_cast<int>(connections.size())),
        mesh_(std::move(options), std::move(connections), std::move(abort)),
        direct_(world_ > 1 ? world_ * kDirectElements : 0) {
    arriving_.reserve(2 * world_);
    leaving_.reserve(2 * world_);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_; }
  TrafficCount traffic() const override { return mesh_.traffic(); }
  void Abort(const absl::Status& reason) override { mesh_.Abort(reason); }

  absl::Status AllReduce(absl::Span<float> data) override {
    const auto count = static_cast<int64_t>(data.size());
    TETHYS_RETURN_IF_ERROR(mesh_.Begin(FrameKind::kReduce, FrameDType::kFloat32, count));
    if (world_ == 1) return absl::OkStatus();
    return count <= kDirectElements ? ReduceDirectly(data.data(), count)
                                    : ReduceAroundRing(data.data(), count);
  }

  // Each rank passes the data on to its right neighbour, chunk by chunk.
  absl::Status Broadcast(absl::Span<float> data, int root) override {
    if (root < 0 || root >= world_) {
      return absl::InvalidArgumentError(
          absl::StrCat("broadcast from rank ", root, " in a world of ", world_));
    }
    const Piece whole{.data = data.data(), .count = static_cast<int64_t>(data.size())};
    TETHYS_RETURN_IF_ERROR(mesh_.Begin(FrameKind::kBroadcast, FrameDType::kFloat32, whole.count, root));
    if (world_ == 1) return absl::OkStatus();
    using Pieces = absl::Span<const Piece>;
    const Pieces all(&whole, 1);
    const bool first = rank_ == root;
    const bool last = Right() == root;
    mesh_.Receive(Left(), first ? Pieces() : all);
    mesh_.Send(Right(), last ? Pieces() : all, first ? whole.count : 0);
    TETHYS_RETURN_IF_ERROR(mesh_.Move(Left(), Right()));
    // In this barrier the root learns if another rank is in another collective. Without it the root would
    // have returned.
    return Barrier();
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

 private:
  int Left() const { return (rank_ + world_ - 1) % world_; }
  int Right() const { return (rank_ + 1) % world_; }

  // Every rank sends the whole vector to every other rank and adds all vectors in rank order.
  absl::Status ReduceDirectly(float* data, int64_t count) {
    const auto slot = [this](int peer) { return direct_.data() + peer * kDirectElements; };
    for (int peer = 0; peer < world_; ++peer) {
      if (peer == rank_) continue;
      const Piece in{.data = slot(peer), .count = count};
      const Piece out{.data = data, .count = count};
      mesh_.Receive(peer, {&in, 1});
      mesh_.Send(peer, {&out, 1}, count);
    }
    TETHYS_RETURN_IF_ERROR(mesh_.Move());
    for (int peer = 1; peer < rank_; ++peer) AddTo(slot(0), slot(peer), count);
    if (rank_ > 0) AddTo(data, slot(0), count);
    for (int peer = rank_ + 1; peer < world_; ++peer) AddTo(data, slot(peer), count);
    return absl::OkStatus();
  }

  // Block b starts at rank b and moves right. Every rank adds its own part, until the sum is complete at rank
  // b-1 (n-1 hops). The sum then moves right again and replaces the block on each rank (n-1 more hops). So
  // after its own block, a rank sends only data that it has received, and passes each chunk on as soon as it
  // is added.
  absl::Status ReduceAroundRing(float* data, int64_t count) {
    arriving_.clear();
    leaving_.clear();
    for (int hop = 0; hop < 2 * (world_ - 1); ++hop) {
      leaving_.push_back(Block(data, count, rank_ - hop));
      arriving_.push_back(Block(data, count, rank_ - hop - 1));
      arriving_.back().add = hop < world_ - 1;
    }
    mesh_.Receive(Left(), arriving_);
    mesh_.Send(Right(), leaving_, leaving_.front().count);
    return mesh_.Move(Left(), Right());
  }

  // Block `index` modulo n, of n ranks.
  Piece Block(float* data, int64_t count, int index) const {
    const Range block = BlockOf(count, world_, ((index % world_) + world_) % world_);
    return {.data = data + block.begin, .count = block.count};
  }

  const int rank_;
  const int world_;
  PeerMesh mesh_;
  std::vector<float> direct_;  // kDirectElements per rank.
  std::vector<Piece> arriving_;
  std::vector<Piece> leaving_;
};

absl::Status CheckOptions(const RingOptions& options) {
  if (options.rank < 0 || options.rank >= options.world()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " in a ring of ", options.world(), " members"));
  }
  if (options.clock == nullptr) return absl::InvalidArgumentError("a ring needs a clock");
  if (options.authenticator == nullptr) return absl::InvalidArgumentError("a ring needs an authenticator");
  if (options.send_buffer_bytes < 0 || options.send_buffer_bytes > kMaxSendBufferBytes) {
    return absl::InvalidArgumentError(absl::StrCat("send_buffer_bytes is ", options.send_buffer_bytes,
                                                   ", not in [0, ", kMaxSendBufferBytes, "]"));
  }
  if (options.connect_timeout <= 0 || options.step_timeout <= 0) {
    return absl::InvalidArgumentError("the time-outs of a ring must be positive");
  }
  for (int rank = 0; rank < options.world(); ++rank) {
    const RingMember& member = options.members[rank];
    TETHYS_RETURN_IF_ERROR(
        Annotate(ParseHostPort(member.address).status(), absl::StrCat("address of rank ", rank)));
    if (options.tls != nullptr && member.certificate.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " has no name of a certificate"));
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
  TETHYS_ASSIGN_OR_RETURN(WakeUp abort, WakeUp::Create());
  TETHYS_ASSIGN_OR_RETURN(std::vector<RingConnection> connections, FormRing(listener.fd(), options));
  return std::make_unique<RingCommunicator>(std::move(options), std::move(connections), std::move(abort));
}

}  // namespace tethys
