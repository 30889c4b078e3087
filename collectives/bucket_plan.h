// Which ranges of the gradient arena are reduced together, and when. Pure: computed once per plan, the same
// on every worker.
#ifndef TETHYS_COLLECTIVES_BUCKET_PLAN_H_
#define TETHYS_COLLECTIVES_BUCKET_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Invariants:
// 1. Buckets are disjoint and together cover every ready range; beyond that they hold padding only.
// 2. A bucket is one contiguous range, so nothing is packed.
// 3. last_ready never decreases: buckets become complete in the order they are reduced.
struct Bucket {
  Range range;
  int64_t last_ready = 0;  // Complete once ready ranges [0, last_ready] have been announced.
  bool operator==(const Bucket&) const = default;
};

// `ready_order` lists ranges in the order in which backward announces them, from the end of the arena to its
// start. A bucket grows by adjacent ranges and closes once it holds `bucket_elements`, the first one once it
// holds `first_elements`. A large range is not cut: all of it becomes ready at once, and the all-reduce
// overlaps its own parts. InvalidArgument for empty or overlapping ranges.
absl::StatusOr<std::vector<Bucket>> PlanBuckets(absl::Span<const Range> ready_order, int64_t bucket_elements,
                                                int64_t first_elements);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_BUCKET_PLAN_H_
