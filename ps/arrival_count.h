// Counts, for each element of a server's memory, how many workers have pushed a gradient for it. When a part
// of a push arrives, reports the elements that all workers have now pushed. Neighbouring elements with equal
// counts share one entry: if all workers cut their pushes into the same parts, there is one entry per part.
// An entry is found in logarithmic time. Pure; used by the store's thread.
#ifndef TETHYS_PS_ARRIVAL_COUNT_H_
#define TETHYS_PS_ARRIVAL_COUNT_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class ArrivalCount {
 public:
  // Counts elements [0, size); an element is complete once `workers` parts have contained it.
  ArrivalCount(int workers, int64_t size) : workers_(workers), size_(size) { Clear(); }

  // Counts a part of a worker's push. Requires that the part is within [0, size) and does not overlap the
  // same worker's earlier parts. Returns the ranges of the part that have now arrived from all workers, in
  // ascending order.
  std::vector<Range> Add(Range part);
  // Resets all counts.
  void Clear();

 private:
  struct Piece {
    int64_t end = 0;
    int missing = 0;  // The number of workers that have not pushed this piece yet.
  };
  using Pieces = absl::btree_map<int64_t, Piece>;
  // Returns the piece that begins at `position`, after splitting the piece that contains it if necessary.
  // Invalidates iterators.
  Pieces::iterator CutAt(int64_t position);

  int workers_;
  int64_t size_;
  Pieces pieces_;  // Keyed by first element; together the pieces cover [0, size).
};

}  // namespace tethys

#endif  // TETHYS_PS_ARRIVAL_COUNT_H_
