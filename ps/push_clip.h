// Clips the gradients of one push by their global norm, in jobs in which each push is a separate update. The
// worker clips, because only the worker has all gradients of the update. Used by the training thread.
#ifndef TETHYS_PS_PUSH_CLIP_H_
#define TETHYS_PS_PUSH_CLIP_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/device/device.h"

namespace tethys {

class PushClip {
 public:
  // `ranges` are the ranges of the gradient arena that are pushed. InvalidArgument: `limit` is not above 0.
  static absl::StatusOr<std::unique_ptr<PushClip>> Create(double limit, absl::Span<const Range> ranges);

  // Multiplies the sums in host memory by one factor, at most 1, so that the norm of the sums divided by
  // `divisor` is at most the limit. The server divides the pushed sums by `divisor`, which must be above 0.
  absl::Status Run(int64_t divisor, float* gradient_sums);

 private:
  PushClip() = default;

  std::vector<Range> ranges_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ClipPrimitive> clip_;
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSH_CLIP_H_
