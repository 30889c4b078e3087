#include "ps/shard_layout.h"

#include <algorithm>

namespace tethys {

absl::StatusOr<ShardLayout> ShardLayout::Create(const proto::Placement& placement, int server,
                                                int64_t arena_size) {
  if (server < 0 || server >= placement.servers()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no server ", server, " in a placement on ", placement.servers(), " servers"));
  }
  ShardLayout layout;
  int64_t previous_end = 0;
  bool previous_is_here = false;
  for (const proto::Shard& shard : placement.shard()) {
    const bool fits = shard.begin() >= previous_end && shard.count() > 0 && shard.count() <= arena_size &&
                      shard.begin() <= arena_size - shard.count();
    if (!fits || shard.server() < 0 || shard.server() >= placement.servers()) {
      return absl::InvalidArgumentError(
          absl::StrCat("placement: the shard of '", shard.variable(), "' on server ", shard.server(), ", ",
                       shard.count(), " elements from element ", shard.begin(),
                       " on, overlaps the shard before it, exceeds the arena of ", arena_size,
                       " elements, or names a server that does not exist"));
    }
    // `touches` needs previous_is_here, because elements of another server may lie between a shard's end and
    // the next multiple of kAlignment.
    const bool touches =
        previous_is_here && (previous_end == shard.begin() || AlignUp(previous_end) == shard.begin());
    previous_end = shard.begin() + shard.count();
    previous_is_here = shard.server() == server;
    if (!previous_is_here) continue;

    const Range arena{shard.begin(), shard.count()};
    if (touches) {
      Range& run = layout.runs_.back().arena;
      run.count = arena.end() - run.begin;
    } else {
      const int64_t local_begin =
          layout.runs_.empty() ? 0
                               : AlignUp(layout.runs_.back().local_begin + layout.runs_.back().arena.count);
      layout.runs_.push_back({arena, local_begin});
    }
    const Run& run = layout.runs_.back();
    layout.shards_.push_back(
        {shard.variable(), arena, {run.local_begin + arena.begin - run.arena.begin, arena.count}});
  }
  for (const Shard& shard : layout.shards_) {
    layout.elements_before_.push_back(layout.element_count_);
    layout.element_count_ += shard.arena.count;
  }
  if (!layout.runs_.empty())
    layout.local_size_ = layout.runs_.back().local_begin + layout.runs_.back().arena.count;
  return layout;
}

int64_t ShardLayout::ElementsIn(Range local) const {
  return local.count <= 0 ? 0 : ElementsBefore(local.end()) - ElementsBefore(local.begin);
}

int64_t ShardLayout::ElementsBefore(int64_t position) const {
  const auto after =
      std::upper_bound(shards_.begin(), shards_.end(), position,
                       [](int64_t value, const Shard& shard) { return value < shard.local.begin; });
  if (after == shards_.begin()) return 0;
  const int64_t index = std::prev(after) - shards_.begin();
  return elements_before_[index] +
         std::min(position - shards_[index].local.begin, shards_[index].local.count);
}

absl::StatusOr<Range> ShardLayout::ToLocal(uint64_t begin, uint64_t count) const {
  const auto after = std::upper_bound(
      runs_.begin(), runs_.end(), begin,
      [](uint64_t position, const Run& run) { return position < static_cast<uint64_t>(run.arena.begin); });
  if (after != runs_.begin() && count > 0) {
    const Run& run = *std::prev(after);
    const uint64_t end = static_cast<uint64_t>(run.arena.end());
    if (begin < end && count <= end - begin) {
      return Range{run.local_begin + static_cast<int64_t>(begin) - run.arena.begin,
                   static_cast<int64_t>(count)};
    }
  }
  return absl::OutOfRangeError(
      absl::StrCat("the range of ", count, " elements that begins at element ", begin,
                   " is not within one contiguous range of this server's shards: worker and server "
                   "must both use the chief's placement"));
}

}  // namespace tethys
