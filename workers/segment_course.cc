#include "workers/segment_course.h"

namespace tethys {

absl::optional<BatchAssignment> SegmentCourse::Announce(Messages& messages) {
  const absl::optional<BatchAssignment> batch = Next(messages);
  if (batch.has_value()) announced_.push_back(*batch);
  return batch;
}

absl::optional<BatchAssignment> SegmentCourse::BeginStep() {
  if (ended()) return absl::nullopt;
  TETHYS_CHECK(!announced_.empty());
  const BatchAssignment batch = announced_.front();
  announced_.pop_front();
  return batch;
}

}  // namespace tethys
