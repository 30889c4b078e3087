// How many workers' pushes have each element of a server's memory: tells which elements are complete with the
// part that has just come. Where all workers cut their pushes alike, each cut is one entry that counts down,
// found in logarithmic time; where they do not, entries are cut further. Pure; belongs to the store's thread.
#ifndef TETHYS_PS_ARRIVAL_COUNT_H_
#define TETHYS_PS_ARRIVAL_COUNT_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class ArrivalCount {
 public:
  // Of elements [0, size), each of which `workers` parts complete.
  ArrivalCount(int workers, int64_t size) : workers_(workers), size_(size) { Clear(); }

  // Counts a part, within [0, size), of a worker whose earlier parts do not overlap it. Returns what of it is
  // now complete, in the order of its elements.
  std::vector<Range> Add(Range part);
  // Nothing is here.
  void Clear();

 private:
  struct Piece {
    int64_t end = 0;
    int missing = 0;  // Workers whose parts do not have it.
  };
  using Pieces = absl::btree_map<int64_t, Piece>;
  // The piece that begins at `position`, cut off from the one around it. Iterators become invalid.
  Pieces::iterator CutAt(int64_t position);

  const int workers_;
  const int64_t size_;
  Pieces pieces_;  // By their first element; together they are [0, size).
};

}  // namespace tethys

#endif  // TETHYS_PS_ARRIVAL_COUNT_H_
