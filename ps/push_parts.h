// The arrived parts of one worker's push, in the order of arrival. A part is found by its range in the
// server's memory in logarithmic time. Parts do not overlap. Pure; used by the store's thread.
#ifndef TETHYS_PS_PUSH_PARTS_H_
#define TETHYS_PS_PUSH_PARTS_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class PushParts {
 public:
  struct Part {
    Range arena;
    Range local;
    int64_t waiting = 0;    // Number of elements, without padding, that are not updated yet.
    bool answered = false;  // True if the part is updated, and the answer was sent to the worker.
  };

  // Adds a part that has arrived. Requires that `part` is not empty and overlaps no other part.
  void Add(const Part& part);
  void Clear();

  // The part with exactly this range, or null.
  const Part* Find(Range local) const;
  // A part that has an element in common with `local`, or null.
  const Part* FindOverlap(Range local) const;
  // Calls `function` for every part that has an element in common with `local`, in ascending order.
  void ForEachIn(Range local, absl::FunctionRef<void(Part&)> function);
  // All parts, in the order of arrival.
  std::vector<Part>& in_order() { return parts_; }

 private:
  using Places = absl::btree_map<int64_t, size_t>;
  // The first part that ends after `position`.
  Places::const_iterator FirstEndingAfter(int64_t position) const;

  std::vector<Part> parts_;
  Places places_;  // Indices into parts_, keyed by the first element in the server's memory.
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSH_PARTS_H_
