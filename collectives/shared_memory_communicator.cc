#include "collectives/shared_memory_communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/types/optional.h"
#include "collectives/block_cut.h"
#include "collectives/calls.h"
#include "collectives/rank_board.h"
#include "collectives/shared_memory.h"
#include "collectives/vector_sum.h"
#include "runtime/base/logging.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// The part of a long vector that a rank publishes at a time: one window (256 KiB). Larger windows are evicted
// from the processor's cache before they are read.
constexpr int64_t kWindowElements = 64 * 1024;
constexpr int64_t kWindowBytes = kWindowElements * kFloatBytes;
// With three windows, a rank may write window w + 2 while other ranks still read window w (invariant 2).
constexpr int64_t kWindows = 3;
// The number of elements of a chunk is a multiple of this number, so that no two ranks write to the same
// cache line.
constexpr int64_t kLineElements = 16;
// The part of a vector that is summed in place at a time. It is small enough to stay in the L1 cache between
// reading and writing.
constexpr int64_t kLapElements = 4 * 1024;
// The part of a message that is handed over at a time (64 KiB). The sender writes one part while the receiver
// reads another part.
constexpr int64_t kParcelElements = 16 * 1024;
constexpr int64_t kParcelBytes = kParcelElements * kFloatBytes;
constexpr int64_t kParcels = 2;
constexpr int64_t kPageElements = 4096 / kFloatBytes;
constexpr int kMaxRanks = kWindowElements / kLineElements;

int64_t RoundUp(int64_t elements, int64_t unit) { return (elements + unit - 1) / unit * unit; }

// Returns the first rank whose `own` is an error, or -1 if no rank has an error. A collective over `all`.
absl::StatusOr<int> FirstFailed(Communicator& all, const absl::Status& own) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint16_t> failed,
                          AllGather(all, static_cast<uint16_t>(own.ok() ? 0 : 1)));
  const auto first = std::find(failed.begin(), failed.end(), 1);
  return first == failed.end() ? -1 : static_cast<int>(first - failed.begin());
}

// The memory holds the board, then for every rank
//   2 short vectors     for even and odd collectives
//   3 windows           used in rotation; a reduction cuts them into a chunk per rank
//   2 parcels           used in rotation by the messages that the rank sends
// AllocateForReduction creates a second shared memory with an arena per rank, in which vectors are reduced.
//
// Invariants:
// 1. The order of additions of an element depends only on the world size, the count and the element's index,
// and is the same as in the ring.
// 2. Before a rank writes window w, it has seen the post that every rank makes after reading window w - 3.
class SharedMemoryCommunicator final : public Communicator {
 public:
  static constexpr int64_t kRankElements =
      2 * kDirectElements + kWindows * kWindowElements + kParcels * kParcelElements;

  static int64_t Bytes(int world) { return RankBoard::Bytes(world) + world * kRankElements * kFloatBytes; }

  // `own` has the names of the members of this communicator, in rank order.
  SharedMemoryCommunicator(SharedMemoryOptions own, RankBoardOptions options, SharedMemory memory)
      : own_options_(std::move(own)),
        memory_(std::move(memory)),
        rank_(options.rank),
        world_(static_cast<int>(options.members.size())),
        chunk_elements_(kWindowElements / world_ / kLineElements * kLineElements),
        vectors_(reinterpret_cast<float*>(memory_.data() + RankBoard::Bytes(world_))),
        board_(std::move(options), memory_.data()),
        watch_(own_options_.interruption, [this](const absl::Status& reason) { Interrupt(reason); }) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_; }
  TrafficCount traffic() const override { return traffic_; }
  void Abort(const absl::Status& reason) override { board_.Abort(reason); }
  void Interrupt(const absl::Status& reason) override { board_.Interrupt(reason); }

  // Called once all ranks have opened the memory.
  void Complete() {
    memory_.CloseDescriptor();
    board_.WatchPeers();
  }

  absl::Status AllReduce(absl::Span<float> data) override {
    return Reduce(FrameKind::kReduce, data, /*spread=*/true);
  }

  absl::Status ReduceScatter(absl::Span<float> data) override {
    return Reduce(FrameKind::kReduceScatter, data, /*spread=*/false);
  }

  Range OwnedBlock(int rank, int64_t count) const override { return BlockOf(count, world_, rank); }

  absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) override {
    TETHYS_RETURN_IF_ERROR(CheckParts(parts, world_, static_cast<int64_t>(data.size())));
    const absl::optional<int64_t> at = PositionInArena(data);
    TETHYS_RETURN_IF_ERROR(board_.Begin({.kind = FrameKind::kGather,
                                         .dtype = FrameDType::kBytes,
                                         .range_begin = static_cast<uint64_t>(at.value_or(0)),
                                         .range_count = data.size(),
                                         .parts_hash = HashOf(parts)},
                                        at.has_value()));
    return at.has_value() ? GatherInArenas(data, *at, parts) : GatherByWindows(data, parts);
  }

  absl::Status Barrier() override {
    TETHYS_RETURN_IF_ERROR(board_.Begin({.kind = FrameKind::kBarrier, .dtype = FrameDType::kNone}));
    return board_.Meet();
  }

  absl::Status Send(int peer, absl::Span<const char> data) override {
    TETHYS_RETURN_IF_ERROR(CheckPeer(peer, rank_, world_));
    TETHYS_RETURN_IF_ERROR(board_.BeginSend(peer, static_cast<int64_t>(data.size())));
    int64_t parcel = 0;
    do {
      const absl::Span<const char> part = data.subspan(0, kParcelBytes);
      // After this wait, at most one of the two parcels is still unread.
      TETHYS_RETURN_IF_ERROR(board_.AwaitTaken(peer, kParcels - 1));
      if (!part.empty()) Write(Parcel(rank_, parcel++), part.data(), static_cast<int64_t>(part.size()));
      board_.PostChunk(peer);
      data.remove_prefix(part.size());
    } while (!data.empty());
    return board_.AwaitTaken(peer, 0);
  }

  absl::Status Receive(int peer, absl::Span<char> data) override {
    TETHYS_RETURN_IF_ERROR(CheckPeer(peer, rank_, world_));
    TETHYS_RETURN_IF_ERROR(board_.BeginReceive(peer, static_cast<int64_t>(data.size())));
    int64_t parcel = 0;
    do {
      const absl::Span<char> part = data.subspan(0, kParcelBytes);
      TETHYS_RETURN_IF_ERROR(board_.AwaitChunk(peer));
      if (!part.empty()) Read(part.data(), Parcel(peer, parcel++), static_cast<int64_t>(part.size()));
      board_.TakeChunk(peer);
      data.remove_prefix(part.size());
    } while (!data.empty());
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour) override {
    TETHYS_ASSIGN_OR_RETURN(std::vector<int> colours, tethys::AllGather(*this, colour));
    // A rank with a negative colour forms a group of its own and then discards it, because every rank must
    // take part in the collectives that create the groups.
    for (int rank = 0; rank < world_; ++rank) {
      if (colours[rank] < 0) colours[rank] = -1 - rank;
    }
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part,
                            CreateSharedMemoryCommunicator(*this, colours, own_options_));
    if (colour < 0) return nullptr;
    return part;
  }

  // Returns null if there is not enough memory; the ranks then use their own memory.
  absl::StatusOr<float*> AllocateForReduction(int64_t count) override {
    TETHYS_CHECK(!arenas_.has_value() && count > 0, "arenas are allocated once, and are not empty");
    if (world_ == 1) return nullptr;
    const int64_t arena_elements = RoundUp(count, kPageElements);
    const int64_t bytes = world_ * arena_elements * kFloatBytes;
    absl::StatusOr<SharedMemory> memory = absl::UnknownError("");
    if (rank_ == 0) memory = SharedMemory::Create(bytes);
    TETHYS_ASSIGN_OR_RETURN(
        const std::vector<SharedMemoryAddress> addresses,
        tethys::AllGather(*this, memory.ok() ? memory->address() : SharedMemoryAddress()));
    if (rank_ != 0) memory = SharedMemory::Open(addresses[0], bytes);
    TETHYS_ASSIGN_OR_RETURN(const int failed, FirstFailed(*this, memory.status()));
    if (failed >= 0) {
      if (!memory.ok())
        TETHYS_LOG(Warning, "gradients are copied, because shared memory for them could not be set up: ",
                   memory.status().message());
      return nullptr;
    }
    memory->CloseDescriptor();
    arenas_ = *std::move(memory);
    arena_elements_ = arena_elements;
    return Arena(rank_);
  }

 private:
  float* Short(int rank) const {
    return vectors_ + rank * kRankElements + static_cast<int64_t>(board_.step() % 2) * kDirectElements;
  }
  float* Window(int rank, int64_t window) const {
    return vectors_ + rank * kRankElements + 2 * kDirectElements + window % kWindows * kWindowElements;
  }

  char* Parcel(int rank, int64_t parcel) const {
    float* const parcels = vectors_ + rank * kRankElements + 2 * kDirectElements + kWindows * kWindowElements;
    return reinterpret_cast<char*>(parcels + parcel % kParcels * kParcelElements);
  }

  float* Arena(int rank) const { return reinterpret_cast<float*>(arenas_->data()) + rank * arena_elements_; }

  // The position of the data's first byte in this rank's arena. Absent if there are no data or they lie in
  // other memory.
  absl::optional<int64_t> PositionInArena(absl::Span<const char> data) const {
    if (!arenas_.has_value() || data.empty()) return absl::nullopt;
    const std::less_equal<const char*> not_behind;
    const char* const own = reinterpret_cast<const char*>(Arena(rank_));
    const bool inside = not_behind(own, data.data()) &&
                        not_behind(data.data() + data.size(), own + arena_elements_ * kFloatBytes);
    return inside ? absl::optional<int64_t>(data.data() - own) : absl::nullopt;
  }

  void Write(char* shared, const char* own, int64_t bytes) {
    std::memcpy(shared, own, bytes);
    traffic_.bytes_out += bytes;
  }
  void Read(char* own, const char* shared, int64_t bytes) {
    std::memcpy(own, shared, bytes);
    traffic_.bytes_in += bytes;
  }
  void WriteFloats(float* shared, const float* own, int64_t count) {
    Write(reinterpret_cast<char*>(shared), reinterpret_cast<const char*>(own), count * kFloatBytes);
  }
  void ReadFloats(float* own, const float* shared, int64_t count) {
    Read(reinterpret_cast<char*>(own), reinterpret_cast<const char*>(shared), count * kFloatBytes);
  }

  absl::Status Reduce(FrameKind kind, absl::Span<float> data, bool spread) {
    const auto count = static_cast<int64_t>(data.size());
    const absl::optional<int64_t> at = PositionInArena(BytesOf(data));
    TETHYS_RETURN_IF_ERROR(board_.Begin({.kind = kind,
                                         .range_begin = static_cast<uint64_t>(at.value_or(0) / kFloatBytes),
                                         .range_count = data.size()},
                                        at.has_value()));
    if (world_ == 1) return absl::OkStatus();
    if (count <= kDirectElements) return ReduceDirectly(data.data(), count);
    if (at.has_value()) return ReduceInArenas(*at / kFloatBytes, count, spread);
    return ReduceByBlocks(data.data(), count, spread);
  }

  // Every rank publishes its whole vector, and adds all ranks' vectors in rank order.
  absl::Status ReduceDirectly(float* data, int64_t count) {
    if (count > 0) WriteFloats(Short(rank_), data, count);
    TETHYS_RETURN_IF_ERROR(board_.Meet());
    if (count == 0) return absl::OkStatus();
    ReadFloats(data, Short(0), count);
    for (int peer = 1; peer < world_; ++peer) AddTo(data, Short(peer), count);
    traffic_.bytes_in += (world_ - 1) * count * kFloatBytes;
    return absl::OkStatus();
  }

  // Every rank sums its block in place, a piece at a time. With `spread`, it writes the sums to the same
  // positions in the other ranks' arenas.
  absl::Status ReduceInArenas(int64_t begin, int64_t count, bool spread) {
    TETHYS_RETURN_IF_ERROR(board_.Meet());
    const Range block = BlockOf(count, world_, rank_);
    for (int64_t done = 0; done < block.count; done += kLapElements) {
      const int64_t at = begin + block.begin + done;
      const int64_t lap = std::min(kLapElements, block.count - done);
      const auto part = [this, at](int hop) { return Arena((rank_ + hop) % world_) + at; };
      for (int hop = 1; hop < world_ - 1; ++hop) AddTo(part(0), part(hop), lap);
      if (!spread) {
        AddTo(part(0), part(world_ - 1), lap);
        continue;
      }
      AddToBoth(part(0), part(world_ - 1), lap);
      for (int hop = 1; hop < world_ - 1; ++hop) std::memcpy(part(hop), part(0), lap * kFloatBytes);
    }
    traffic_.bytes_in += (world_ - 1) * block.count * kFloatBytes;
    if (spread) traffic_.bytes_out += (world_ - 1) * block.count * kFloatBytes;
    return board_.Meet();
  }

  // Every rank copies the other ranks' parts from their arenas.
  absl::Status GatherInArenas(absl::Span<char> data, int64_t at, absl::Span<const Range> parts) {
    TETHYS_RETURN_IF_ERROR(board_.Meet());
    for (int peer = 0; peer < world_; ++peer) {
      const Range& part = parts[peer];
      if (peer == rank_ || part.count == 0) continue;
      Read(data.data() + part.begin, reinterpret_cast<const char*>(Arena(peer)) + at + part.begin,
           part.count);
    }
    return board_.Meet();
  }

  // Every rank publishes its part window by window, and copies the other ranks' windows.
  absl::Status GatherByWindows(absl::Span<char> data, absl::Span<const Range> parts) {
    int64_t longest = 0;
    for (const Range& part : parts) longest = std::max(longest, part.count);
    int64_t done = 0;
    do {
      const auto rest = [&](int rank) {
        return std::clamp<int64_t>(parts[rank].count - done, 0, kWindowBytes);
      };
      const auto window = [&](int rank) { return reinterpret_cast<char*>(Window(rank, window_)); };
      const auto place = [&](int rank) { return data.data() + parts[rank].begin + done; };
      if (const int64_t bytes = rest(rank_); bytes > 0) Write(window(rank_), place(rank_), bytes);
      TETHYS_RETURN_IF_ERROR(board_.Meet());
      for (int peer = 0; peer < world_; ++peer) {
        if (const int64_t bytes = rest(peer); peer != rank_ && bytes > 0)
          Read(place(peer), window(peer), bytes);
      }
      ++window_;
      done += kWindowBytes;
    } while (done < longest);
    return absl::OkStatus();
  }

  // For each window, every rank publishes its part of the other ranks' blocks, sums its own block for all
  // ranks, and reads the other blocks' sums. A rank publishes the next window before it waits for the current
  // window, so that a slow rank delays the other ranks less. Without `spread`, ranks do not read the other
  // blocks' sums.
  absl::Status ReduceByBlocks(float* data, int64_t count, bool spread) {
    const int64_t windows = (BlockOf(count, world_, 0).count + chunk_elements_ - 1) / chunk_elements_;
    const Cut cut{.data = data,
                  .count = count,
                  .chunk = RoundUp((BlockOf(count, world_, 0).count + windows - 1) / windows, kLineElements)};
    Show(cut, 0);
    uint32_t shown = board_.Post();
    for (int64_t i = 0; i < windows; ++i) {
      uint32_t shown_next = 0;
      if (i + 1 < windows) {
        Show(cut, i + 1);
        shown_next = board_.Post();
      }
      TETHYS_RETURN_IF_ERROR(board_.WaitForAll(shown));
      Sum(cut, i);
      TETHYS_RETURN_IF_ERROR(board_.WaitForAll(board_.Post()));
      if (spread) Take(cut, i);
      shown = shown_next;
    }
    window_ += windows;
    return absl::OkStatus();
  }

  struct Cut {
    float* data = nullptr;
    int64_t count = 0;
    int64_t chunk = 0;  // The elements of a rank's block that fit into one window.
  };
  // Chunk `i` of a block.
  Range Chunk(const Cut& cut, int block, int64_t i) const {
    const Range whole = BlockOf(cut.count, world_, block);
    const int64_t begin = std::min(i * cut.chunk, whole.count);
    return {.begin = whole.begin + begin, .count = std::min(cut.chunk, whole.count - begin)};
  }
  float* SharedChunk(int rank, int64_t i, int block) const {
    return Window(rank, window_ + i) + block * chunk_elements_;
  }
  // The rank whose part of a block is added last: as in the ring, the parts of block b are added in the order
  // of ranks b, b + 1, ... b - 1. The sum then replaces this rank's part in the shared memory.
  int LastOf(int block) const { return (block + world_ - 1) % world_; }

  void Show(const Cut& cut, int64_t i) {
    for (int block = 0; block < world_; ++block) {
      const Range range = Chunk(cut, block, i);
      if (block != rank_) WriteFloats(SharedChunk(rank_, i, block), cut.data + range.begin, range.count);
    }
  }
  void Sum(const Cut& cut, int64_t i) {
    const Range range = Chunk(cut, rank_, i);
    float* const own = cut.data + range.begin;
    for (int hop = 1; hop < world_ - 1; ++hop) {
      AddTo(own, SharedChunk((rank_ + hop) % world_, i, rank_), range.count);
    }
    AddToBoth(own, SharedChunk(LastOf(rank_), i, rank_), range.count);
    traffic_.bytes_in += (world_ - 1) * range.count * kFloatBytes;
    traffic_.bytes_out += range.count * kFloatBytes;
  }
  void Take(const Cut& cut, int64_t i) {
    for (int block = 0; block < world_; ++block) {
      const Range range = Chunk(cut, block, i);
      if (block != rank_)
        ReadFloats(cut.data + range.begin, SharedChunk(LastOf(block), i, block), range.count);
    }
  }

  const SharedMemoryOptions own_options_;
  SharedMemory memory_;
  absl::optional<SharedMemory> arenas_;
  int64_t arena_elements_ = 0;
  const int rank_;
  const int world_;
  const int64_t chunk_elements_;
  float* const vectors_;
  RankBoard board_;
  int64_t window_ = 0;  // Windows used so far, the same on all ranks.
  TrafficCount traffic_;
  const Interruption::Watch watch_;  // Declared last: it uses board_.
};

// The ranks on the host of rank `rank`, including `rank`, in ascending order.
std::vector<int> Neighbours(absl::Span<const int> hosts, int rank) {
  std::vector<int> neighbours;
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
    if (hosts[other] == hosts[rank]) neighbours.push_back(other);
  }
  return neighbours;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateSharedMemoryCommunicator(Communicator& all,
                                                                             absl::Span<const int> hosts,
                                                                             SharedMemoryOptions options) {
  const std::vector<int> neighbours = Neighbours(hosts, all.rank());
  const auto world = static_cast<int>(neighbours.size());
  const int leader = neighbours.front();
  const int64_t bytes = SharedMemoryCommunicator::Bytes(world);
  absl::StatusOr<SharedMemory> memory = absl::ResourceExhaustedError(
      absl::StrCat(world, " ranks on one host; at most ", kMaxRanks, " can share memory"));
  if (leader == all.rank() && world <= kMaxRanks) memory = SharedMemory::Create(bytes);
  const SharedMemoryAddress own = memory.ok() ? memory->address() : SharedMemoryAddress();
  TETHYS_ASSIGN_OR_RETURN(const std::vector<SharedMemoryAddress> addresses, AllGather(all, own));
  if (leader != all.rank()) memory = SharedMemory::Open(addresses[leader], bytes);

  std::unique_ptr<SharedMemoryCommunicator> communicator;
  if (memory.ok()) {
    SharedMemoryOptions own_options = options;
    own_options.member_names.clear();
    RankBoardOptions board;
    board.group = options.group;
    board.generation = options.generation;
    board.step_timeout = options.step_timeout;
    board.peers_compute = options.peers_compute;
    board.clock = options.clock;
    for (int i = 0; i < world; ++i) {
      if (neighbours[i] == all.rank()) board.rank = i;
      board.members.push_back(
          absl::StrCat("rank ", neighbours[i], " (", options.member_names[neighbours[i]], ")"));
      own_options.member_names.push_back(options.member_names[neighbours[i]]);
    }
    communicator = std::make_unique<SharedMemoryCommunicator>(std::move(own_options), std::move(board),
                                                              *std::move(memory));
  }
  TETHYS_ASSIGN_OR_RETURN(const int failed, FirstFailed(all, memory.status()));
  if (failed >= 0) {
    if (!memory.ok()) {
      TETHYS_LOG(Warning, "this worker cannot share memory with the other workers on its host: ",
                 memory.status().message());
    }
    // If the leader's process ended before another rank had opened the memory, that rank could not open it.
    // Barrier then returns an error that names the lost leader.
    TETHYS_RETURN_IF_ERROR(all.Barrier());
    return absl::FailedPreconditionError(absl::StrCat(options.member_names[failed],
                                                      " cannot share memory with the other workers on its "
                                                      "host; the log of the failed worker gives the reason"));
  }
  communicator->Complete();
  return communicator;
}

}  // namespace tethys
