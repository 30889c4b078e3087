// Counts, for each element of a server's memory, how many workers have pushed it, and returns the elements
// that a new part completes. If all workers cut their pushes alike, there is one entry per part, which counts
// down and is found in logarithmic time; otherwise entries are cut further. Pure; used by the store's thread.
#ifndef TETHYS_PS_ARRIVAL_COUNT_H_
#define TETHYS_PS_ARRIVAL_COUNT_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class ArrivalCount {
 public:
  // Counts elements [0, size), each of which is complete after `workers` parts.
  ArrivalCount(int workers, int64_t size) : workers_(workers), size_(size) { Clear(); }

  // Counts a part of a worker's push. Requires that it is within [0, size) and does not overlap the worker's
  // earlier parts. Returns the ranges of the part that are now complete, in ascending order.
  std::vector<Range> Add(Range part);
  // Resets all counts.
  void Clear();

 private:
  struct Piece {
    int64_t end = 0;
    int missing = 0;  // Workers that have not pushed it yet.
  };
  using Pieces = absl::btree_map<int64_t, Piece>;
  // Returns the piece that begins at `position`, cut from the one around it. Invalidates iterators.
  Pieces::iterator CutAt(int64_t position);

  const int workers_;
  const int64_t size_;
  Pieces pieces_;  // Keyed by their first element; together they cover [0, size).
};

}  // namespace tethys

#endif  // TETHYS_PS_ARRIVAL_COUNT_H_
