// Decides which ranges of the gradient arena (the array of all gradients, variable.h) are reduced together,
// and when. PlanBuckets is a pure function. Every worker calls it once per execution plan and gets the same
// result.
#ifndef TETHYS_COLLECTIVES_BUCKET_PLAN_H_
#define TETHYS_COLLECTIVES_BUCKET_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Invariants:
// 1. Buckets are disjoint and together cover every range of `ready_order` (PlanBuckets). Apart from these
// ranges they hold only padding.
// 2. A bucket is one contiguous range, so gradients are reduced in place and never packed.
// 3. last_ready never decreases: buckets become complete in the order they are reduced.
struct Bucket {
  Range range;
  // The bucket is complete once backward has announced ranges 0 to last_ready of `ready_order`.
  int64_t last_ready = 0;
  bool operator==(const Bucket&) const = default;
};

// `ready_order` lists ranges in the order in which backward announces them, from the end of the arena to its
// start. Adjacent ranges are added to a bucket until it holds at least `bucket_elements` (in the first
// bucket: `first_elements`). A large range is not cut, because all of it becomes ready at once and the
// all-reduce pipelines its parts. InvalidArgument: a range is empty or overlaps another range.
absl::StatusOr<std::vector<Bucket>> PlanBuckets(absl::Span<const Range> ready_order, int64_t bucket_elements,
                                                int64_t first_elements);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_BUCKET_PLAN_H_
