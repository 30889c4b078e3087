// Functions that the kernels of batch normalisation share, for .cu files.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_NORMALISATION_PARTS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_NORMALISATION_PARTS_H_

#include <cstdint>

#include "runtime/device/cuda/kernels.h"

namespace tethys::cuda {

// The number of positions in a group's samples.
__device__ inline int64_t PositionsOf(const NormalisationArguments& a, int64_t group) {
  return (a.begins[group + 1] - a.begins[group]) * a.positions;
}

// The number of values of a channel in a group of rows; if statistics are over all workers' batches, the
// number in all of these batches together.
__device__ inline double ValuesOf(const NormalisationArguments& a, int64_t group) {
  return a.worker_moments != nullptr ? static_cast<double>(a.worker_moments[a.channels]) * a.positions
                                     : static_cast<double>(PositionsOf(a, group));
}

// The linear functions that normalise a group's values in kSize channels, from `channel` on.
template <int kSize>
struct Normalisation {
  __device__ void Read(const NormalisationArguments& a, int64_t group, int64_t channel, const float* scale,
                       const float* offset) {
    for (int i = 0; i < kSize; ++i) {
      const int64_t at = group * a.channels + channel + i;
      means[i] = a.means[at];
      factors[i] = scale[channel + i] * a.inverse_deviations[at];
      offsets[i] = offset[channel + i];
    }
  }
  // The value before the activation. Backward computes this value again, so forward and backward both use
  // this function.
  __device__ float Of(int i, float x) const { return (x - means[i]) * factors[i] + offsets[i]; }
  // The gradient of the value before the activation.
  __device__ float Gradient(int i, bool relu, float x, float dy) const {
    return relu && !(Of(i, x) > 0) ? 0.0f : dy;
  }

  float means[kSize], factors[kSize], offsets[kSize];
};

// Sums over a group, by tiles of positions. FindTileMoments finds `begins`, which all other functions
// require, and writes the moments of tiles: means into tile_sums, and squared deviations into tile_products.
// MergeTileMoments turns the moments into means, variances and inverse_deviations.
cudaError_t FindTileMoments(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                            const float* weights);
cudaError_t MergeTileMoments(cudaStream_t stream, const NormalisationArguments& arguments);
// FindTileGradients writes the sums of the gradients into tile_sums, and the sums of the gradients' products
// with x - mean into tile_products. MergeTileGradients turns these sums into mean_gradients, slopes, dscale
// and doffset.
cudaError_t FindTileGradients(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                              const float* scale, const float* offset, const void* dy);
cudaError_t MergeTileGradients(cudaStream_t stream, const NormalisationArguments& arguments, float* dscale,
                               float* doffset);
// MergeWorkerMoments turns worker_moments, summed over the workers, into the statistics. MergeWorkerGradients
// turns worker_gradients, summed over the workers, into mean_gradients and slopes.
cudaError_t MergeWorkerMoments(cudaStream_t stream, const NormalisationArguments& arguments);
cudaError_t MergeWorkerGradients(cudaStream_t stream, const NormalisationArguments& arguments);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_NORMALISATION_PARTS_H_
