#include "collectives/bucket_plan.h"

#include <algorithm>

namespace tethys {
namespace {

// True if `range` ends directly below `above`, so that nothing lies between the two ranges except padding
// that aligns the begin of `above`.
bool TouchesFromBelow(const Range& range, const Range& above) {
  return range.end() <= above.begin && AlignUp(range.end()) >= above.begin;
}

absl::Status CheckDisjoint(absl::Span<const Range> ranges) {
  std::vector<Range> sorted(ranges.begin(), ranges.end());
  std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Range& range = sorted[i];
    if (range.begin < 0 || range.count < 1 || (i > 0 && sorted[i - 1].end() > range.begin)) {
      return absl::InvalidArgumentError(absl::StrCat("gradient range [", range.begin, ", ", range.end(),
                                                     ") is empty or overlaps the range before it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Bucket>> PlanBuckets(absl::Span<const Range> ready_order, int64_t bucket_elements,
                                                int64_t first_elements) {
  TETHYS_RETURN_IF_ERROR(CheckDisjoint(ready_order));
  std::vector<Bucket> buckets;
  bool open = false;
  for (size_t i = 0; i < ready_order.size(); ++i) {
    const Range& range = ready_order[i];
    const auto index = static_cast<int64_t>(i);
    if (open && TouchesFromBelow(range, buckets.back().range)) {
      Bucket& bucket = buckets.back();
      bucket = {.range = {.begin = range.begin, .count = bucket.range.end() - range.begin},
                .last_ready = index};
    } else {
      buckets.push_back({.range = range, .last_ready = index});
    }
    open = buckets.back().range.count < (buckets.size() == 1 ? first_elements : bucket_elements);
  }
  return buckets;
}

}  // namespace tethys
