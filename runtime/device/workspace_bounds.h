// Limits, in bytes, on the workspaces of a GPU's primitives, which are device memory for the primitives and
// for the libraries that they call. The back end enforces these limits, and memory forecasts rely on them.
#ifndef TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_
#define TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_

#include <cstdint>

namespace tethys {

// The limit on the workspace that all products of one dense layer share.
inline constexpr int64_t kMostDenseWorkspace = int64_t{32} << 20;
inline constexpr int64_t kMostConvolutionWorkspace = int64_t{256} << 20;

// Approximately the largest number of sums that batch normalisation keeps; each sum is over a tile of pixels
// of one channel.
inline constexpr int64_t kNormalisationSums = 32768;
constexpr int64_t MostNormalisationWorkspace(int64_t groups, int64_t channels) {
  const int64_t values = groups * channels;
  const int64_t tiles = values < kNormalisationSums ? kNormalisationSums : values;
  return 2 * tiles * static_cast<int64_t>(sizeof(double)) +
         (8 * values + 1) * static_cast<int64_t>(sizeof(float)) +
         (groups + 1) * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_
