// The layout of one server's shards in its memory. Workers and servers compute it from the same placement, so
// a frame's range means the same on both ends. Pure, immutable, thread-safe.
//
//   arena of the model   |  a  |  b  |pad|    c     |  d  |        shards a, b, d on server 0
//   runs of server 0     |      run 0    |          |run 1|        a run includes the padding inside it
//   server 0's memory    |      run 0    |run 1|                   runs start at multiples of kAlignment
//
// A run is a maximal range of the arena that holds only shards of one server and padding. A run has the same
// layout in the server's memory as in the arena, so every message within a run is contiguous on both sides.
#ifndef TETHYS_PS_SHARD_LAYOUT_H_
#define TETHYS_PS_SHARD_LAYOUT_H_

#include <string>
#include <vector>

#include "proto/parameter_server.pb.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class ShardLayout {
 public:
  struct Run {
    Range arena;
    int64_t local_begin = 0;
  };
  struct Shard {
    std::string variable;
    Range arena;
    Range local;
  };

  // InvalidArgument: the placement's shards overlap, are out of order or out of [0, arena_size).
  static absl::StatusOr<ShardLayout> Create(const proto::Placement& placement, int server,
                                            int64_t arena_size);

  absl::Span<const Run> runs() const { return runs_; }
  absl::Span<const Shard> shards() const { return shards_; }
  // The number of elements in the server's memory, including padding.
  int64_t local_size() const { return local_size_; }
  // The number of elements of all shards, without padding: the elements of a complete push.
  int64_t element_count() const { return element_count_; }
  // The number of elements of shards within a range of the server's memory, without padding.
  int64_t ElementsIn(Range local) const;

  // Converts [begin, begin + count) of the arena to the server's memory. OutOfRange if the range is empty or
  // not within one run. `begin` and `count` may be any numbers.
  absl::StatusOr<Range> ToLocal(uint64_t begin, uint64_t count) const;

 private:
  // The number of elements of shards before `position` of the server's memory.
  int64_t ElementsBefore(int64_t position) const;

  std::vector<Run> runs_;
  std::vector<Shard> shards_;
  std::vector<int64_t> elements_before_;  // For each shard, the number of elements of all shards before it.
  int64_t local_size_ = 0;
  int64_t element_count_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_SHARD_LAYOUT_H_
