#include "ps/push_clip.h"

namespace tethys {

absl::StatusOr<std::unique_ptr<PushClip>> PushClip::Create(double limit, absl::Span<const Range> ranges) {
  std::unique_ptr<PushClip> clip(new PushClip);
  clip->ranges_.assign(ranges.begin(), ranges.end());
  std::vector<UpdateRegion> regions;
  for (const Range& range : ranges) regions.push_back({.range = range});
  TETHYS_ASSIGN_OR_RETURN(clip->device_, CreateCpuDevice(1));
  TETHYS_ASSIGN_OR_RETURN(clip->stream_, clip->device_->CreateStream());
  TETHYS_ASSIGN_OR_RETURN(clip->clip_, clip->device_->CreateClip(limit, std::move(regions)));
  return clip;
}

absl::Status PushClip::Run(int64_t divisor, float* gradient_sums) {
  const float scale = 1 / static_cast<float>(divisor);
  UpdateRates rates = {.gradient_scale = scale};
  TETHYS_RETURN_IF_ERROR(clip_->Run(*stream_, gradient_sums, &rates));
  if (rates.gradient_scale == scale) return absl::OkStatus();
  const float factor = rates.gradient_scale / scale;
  for (const Range& range : ranges_) {
    for (int64_t i = range.begin; i < range.end(); ++i) gradient_sums[i] *= factor;
  }
  return absl::OkStatus();
}

}  // namespace tethys
