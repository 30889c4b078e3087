// The numbers by which devices standardise inputs.
#ifndef TETHYS_RUNTIME_DEVICE_INPUT_SCALING_H_
#define TETHYS_RUNTIME_DEVICE_INPUT_SCALING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// GPUs get the numbers for all channels of pictures as arguments of their kernel.
inline constexpr int64_t kMostScaledChannels = 16;
// The numbers for each feature of a table lie in memory.
inline constexpr int64_t kMostScaledFeatures = 1 << 16;

// InvalidArgument: `scaling` cannot standardise `count` values.
inline absl::Status CheckScaling(int64_t count, const InputScaling& scaling) {
  bool good = count >= 0 && scaling.channels() >= 1 && scaling.channels() <= kMostScaledFeatures &&
              scaling.mean.size() == scaling.deviation.size() && count % scaling.channels() == 0;
  for (const float mean : scaling.mean) good = good && std::isfinite(mean);
  for (const float deviation : scaling.deviation) good = good && std::isfinite(deviation) && deviation > 0;
  if (good) return absl::OkStatus();
  const auto shown = [](const std::vector<float>& numbers) {
    const auto most = std::min<int64_t>(16, static_cast<int64_t>(numbers.size()));
    return absl::StrCat(absl::StrJoin(numbers.begin(), numbers.begin() + most, ", "),
                        most < static_cast<int64_t>(numbers.size()) ? ", ..." : "");
  };
  return absl::InvalidArgumentError(
      absl::StrCat(count, " inputs cannot be standardised by means ", shown(scaling.mean), " and deviations ",
                   shown(scaling.deviation), ": one of each, or one a channel or feature of at most ",
                   kMostScaledFeatures, "; deviations above 0, all finite"));
}

// The factor of the multiplication that, with one addition, gives (x / 255 - mean) / deviation, or (x - mean)
// / deviation for floats.
inline float ScaleOf(const InputScaling& scaling, int64_t channel) {
  const double unit = scaling.type == ValueType::kByte ? 255.0 : 1.0;
  return static_cast<float>(1.0 / (unit * scaling.deviation[channel]));
}
inline float ShiftOf(const InputScaling& scaling, int64_t channel) {
  return static_cast<float>(-static_cast<double>(scaling.mean[channel]) / scaling.deviation[channel]);
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_INPUT_SCALING_H_
