// Decides which ranges of the gradient arena are reduced together, and when. Pure; computed once per plan,
// with the same result on every worker.
#ifndef TETHYS_COLLECTIVES_BUCKET_PLAN_H_
#define TETHYS_COLLECTIVES_BUCKET_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Invariants:
// 1. Buckets are disjoint and together cover every ready range. Apart from these ranges they hold only
// padding.
// 2. A bucket is one contiguous range, so gradients are reduced in place and never packed.
// 3. last_ready never decreases: buckets become complete in the order they are reduced.
struct Bucket {
  Range range;
  int64_t last_ready = 0;  // The bucket is complete once ready ranges [0, last_ready] are announced.
  bool operator==(const Bucket&) const = default;
};

// `ready_order` lists ranges in the order in which backward announces them, from the end of the arena to its
// start. A bucket grows by adjacent ranges until it holds `bucket_elements` or more; the first bucket, until
// it holds `first_elements`. A large range is not cut, because all of it becomes ready at once and the
// all-reduce pipelines its parts. InvalidArgument: a range is empty or overlaps another range.
absl::StatusOr<std::vector<Bucket>> PlanBuckets(absl::Span<const Range> ready_order, int64_t bucket_elements,
                                                int64_t first_elements);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_BUCKET_PLAN_H_
