#include "ps/message_plan.h"

#include <algorithm>

#include "ps/shard_layout.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// The message size within one machine: three messages per MiB, so that the receiver copies one message while
// the next is being sent. With more messages, the cost per message outweighs this gain. Measured on loopback,
// 1 MiB up and down: 790 us in one message, 600 us in three, 780 us in four.
constexpr int64_t kWholePushMessageBytes = 344 << 10;
// Over a network, messages are answered one by one, so the last answer comes later than the last gradients by
// the transfer time of a message. Therefore a push is cut into 16 messages, within a least and a greatest
// message size. The least size fits one HTTP/2 frame (16 KiB). At the greatest size the cost per message is
// already hidden by the transfer.
constexpr int64_t kMessagesPerPush = 16;
constexpr int64_t kLeastLinkMessageBytes = 12 << 10;
constexpr int64_t kMostLinkMessageBytes = 128 << 10;

// Builds one server's messages. Padding between two ranges belongs to the message that covers both.
class ServerPlanner {
 public:
  ServerPlanner(int server, int64_t capacity) : server_(server), capacity_(capacity) {}

  // Adds `piece`, the part of `run` whose gradients become ready with range `ready_index` of the ready order.
  // Called in ready order. A run is a range of the arena with shards of this server only (shard_layout.h).
  void Add(const ShardLayout::Run& run, const Range& piece, int ready_index) {
    // Pieces of different runs are never merged, because other servers' elements lie between the runs.
    const bool same_run = &run == run_;
    run_ = &run;
    if (same_run && Merge(messages_.back(), piece, ready_index)) return;
    for (int64_t begin = piece.begin; begin < piece.end(); begin += capacity_) {
      messages_.push_back({server_, {begin, std::min(capacity_, piece.end() - begin)}, {ready_index}});
    }
  }

  std::vector<StepMessage>& messages() { return messages_; }

 private:
  bool Merge(StepMessage& message, const Range& piece, int ready_index) const {
    Range& range = message.range;
    const bool before = piece.end() == range.begin || AlignUp(piece.end()) == range.begin;
    const bool after = range.end() == piece.begin || AlignUp(range.end()) == piece.begin;
    if (!before && !after) return false;
    const int64_t begin = std::min(range.begin, piece.begin);
    const int64_t count = std::max(range.end(), piece.end()) - begin;
    if (count > capacity_) return false;
    range = {begin, count};
    if (message.waits_for.back() != ready_index) message.waits_for.push_back(ready_index);
    return true;
  }

  const int server_;
  const int64_t capacity_;                 // The capacity of a message in elements.
  const ShardLayout::Run* run_ = nullptr;  // The run of the last message.
  std::vector<StepMessage> messages_;
};

// The runs or shards that have an element in common with `ready`.
template <typename Piece>
absl::Span<const Piece> In(Range ready, absl::Span<const Piece> pieces) {
  const auto ends_before = [](const Piece& piece, int64_t position) { return piece.arena.end() <= position; };
  const auto begins_before = [](const Piece& piece, int64_t position) {
    return piece.arena.begin < position;
  };
  const auto first = std::lower_bound(pieces.begin(), pieces.end(), ready.begin, ends_before);
  const auto last = std::lower_bound(first, pieces.end(), ready.end(), begins_before);
  return pieces.subspan(first - pieces.begin(), last - first);
}

}  // namespace

int64_t MessageBytes(const proto::Job& job, int64_t arena_size, int servers, bool one_machine) {
  if (job.tuning().message_bytes() > 0) return job.tuning().message_bytes();
  if (!TraitsOf(job).answers_parts() || one_machine) return kWholePushMessageBytes;
  return std::clamp(arena_size * static_cast<int64_t>(sizeof(float)) / servers / kMessagesPerPush,
                    kLeastLinkMessageBytes, kMostLinkMessageBytes);
}

absl::StatusOr<std::vector<StepMessage>> PlanMessages(const proto::Placement& placement, int64_t arena_size,
                                                      absl::Span<const Range> ready_order,
                                                      int64_t message_bytes) {
  const int64_t capacity = std::max<int64_t>(
      kAlignment, message_bytes / static_cast<int64_t>(sizeof(float)) / kAlignment * kAlignment);
  std::vector<StepMessage> plan;
  for (int server = 0; server < placement.servers(); ++server) {
    TETHYS_ASSIGN_OR_RETURN(const ShardLayout layout, ShardLayout::Create(placement, server, arena_size));
    ServerPlanner planner(server, capacity);
    std::vector<int64_t> covered(layout.shards().size(), 0);
    for (int index = 0; index < static_cast<int>(ready_order.size()); ++index) {
      const Range& ready = ready_order[index];
      for (const ShardLayout::Run& run : In(ready, layout.runs())) {
        planner.Add(run, Intersection(run.arena, ready), index);
      }
      const absl::Span<const ShardLayout::Shard> shards = In(ready, layout.shards());
      const size_t first = shards.data() - layout.shards().data();
      for (size_t i = 0; i < shards.size(); ++i) {
        covered[first + i] += Intersection(shards[i].arena, ready).count;
      }
    }
    for (size_t i = 0; i < covered.size(); ++i) {
      const ShardLayout::Shard& shard = layout.shards()[i];
      if (covered[i] == shard.arena.count) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("backward announces ", covered[i], " of the ", shard.arena.count,
                       " gradients of shard [", shard.arena.begin, ", ", shard.arena.end(), ") of '",
                       shard.variable, "': each gradient must be announced once"));
    }
    plan.insert(plan.end(), planner.messages().begin(), planner.messages().end());
  }
  return plan;
}

}  // namespace tethys
