#include "workers/segment_pause.h"

#include <algorithm>
#include <utility>

#include "absl/types/optional.h"

namespace tethys {

absl::StatusOr<bool> SegmentPause::GoesOn(int64_t done) {
  while (!cut_) {
    absl::optional<proto::ToTask> order;
    if (done == rest_at_) {
      TETHYS_ASSIGN_OR_RETURN(order, session_.Receive());
    } else {
      TETHYS_ASSIGN_OR_RETURN(order, session_.Poll());
    }
    if (!order.has_value()) break;
    TETHYS_RETURN_IF_ERROR(Take(*order, done));
  }
  return done < steps_;
}

absl::Status SegmentPause::Take(const proto::ToTask& order, int64_t done) {
  if (order.has_stop()) {
    return absl::AbortedError(absl::StrCat("the chief ended the job: ", order.stop().reason()));
  }
  if (order.has_pause() && order.pause().run() == run_) {
    rest_at_ = std::min(std::max(done, rest_at_) + 1, steps_);
    proto::FromTask message;
    message.mutable_pausing()->set_run(run_);
    message.mutable_pausing()->set_steps(rest_at_);
    session_.Send(std::move(message));
    return absl::OkStatus();
  }
  const bool may_cut = rest_at_ >= 0 && order.cut().run() == run_ && order.cut().steps() >= rest_at_ &&
                       order.cut().steps() <= steps_;
  if (!order.has_cut() || !may_cut) {
    return absl::InternalError("the chief sent an order that is not allowed within a segment");
  }
  steps_ = order.cut().steps();
  cut_ = true;
  return absl::OkStatus();
}

}  // namespace tethys
