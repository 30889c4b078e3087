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

// The most channels of pictures that can have their own mean and deviation: GPUs get these numbers as
// arguments of their kernel.
inline constexpr int64_t kMostScaledChannels = 16;
// The most features of a table that can have their own mean and deviation, which are read from memory.
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
                   shown(scaling.deviation),
                   ": give one mean and one deviation, or one of each per channel or feature (at most ",
                   kMostScaledFeatures, "); all must be finite, and deviations above 0"));
}

// Devices standardise an input x as x * ScaleOf() + ShiftOf(), which is (x / 255 - mean) / deviation for
// bytes and (x - mean) / deviation for floats.
inline float ScaleOf(const InputScaling& scaling, int64_t channel) {
  const double unit = scaling.type == ValueType::kByte ? 255.0 : 1.0;
  return static_cast<float>(1.0 / (unit * scaling.deviation[channel]));
}
inline float ShiftOf(const InputScaling& scaling, int64_t channel) {
  return static_cast<float>(-static_cast<double>(scaling.mean[channel]) / scaling.deviation[channel]);
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_INPUT_SCALING_H_
