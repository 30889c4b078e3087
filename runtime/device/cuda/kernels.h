// Launches our kernels (the .cu files of this folder). Contains no kernel syntax, so that plain C++ files can
// include it. Every function enqueues work on `stream` and returns the error of the launch; pointers are
// device memory. Activations are of type `type`, where a function has such an argument. Results never depend
// on timing: the shape fixes the order of sums, and no float is added atomically.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_KERNELS_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_KERNELS_H_

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/device/element_type.h"
#include "runtime/device/elementwise_primitives.h"
#include "runtime/device/loss_primitives.h"
#include "runtime/device/update_rule.h"

namespace tethys::cuda {

// Returns an error if this library has no code for the current GPU.
cudaError_t CheckKernelImage();

// Reads the GPU's clock for `time` nanoseconds; `longest` becomes the longest interval between two reads, in
// nanoseconds.
cudaError_t MeasurePause(cudaStream_t stream, uint64_t time, uint64_t* longest);

// out = in * scale + shift, with the scale and shift of value i's channel, which is i mod channels.
struct ChannelScales {
  int channels;
  float scale[16];
  float shift[16];
};
cudaError_t ConvertBytes(cudaStream_t stream, ElementType type, int64_t count, const ChannelScales& scales,
                         const uint8_t* in, void* out);
cudaError_t ConvertFloats(cudaStream_t stream, ElementType type, int64_t count, const ChannelScales& scales,
                          const float* in, void* out);
// Like ChannelScales, but for the features of a table: value i has feature i mod features. The scales and
// shifts are in device memory.
struct FeatureScales {
  int64_t features;
  const float* scale;
  const float* shift;
};
cudaError_t ConvertBytes(cudaStream_t stream, ElementType type, int64_t count, const FeatureScales& scales,
                         const uint8_t* in, void* out);
cudaError_t ConvertFloats(cudaStream_t stream, ElementType type, int64_t count, const FeatureScales& scales,
                          const float* in, void* out);

// ToBfloat16 rounds to nearest, ties to even; FromBfloat16 is exact.
cudaError_t ToBfloat16(cudaStream_t stream, int64_t count, const float* in, __nv_bfloat16* out);
cudaError_t FromBfloat16(cudaStream_t stream, int64_t count, const __nv_bfloat16* in, float* out);

// y [rows, columns] += bias [columns]; then, with relu, y = max(y, 0), where NaN stays NaN.
cudaError_t AddBias(cudaStream_t stream, ElementType type, int64_t rows, int64_t columns, bool relu,
                    const float* bias, void* y);

// The number of floats that MaskAndSumColumns needs as scratch memory.
int64_t ColumnSumScratch(int64_t rows, int64_t columns);
// dy [rows, columns] *= (y > 0), unless y is null; sums [columns] = column sums of dy.
cudaError_t MaskAndSumColumns(cudaStream_t stream, ElementType type, int64_t rows, int64_t columns,
                              const void* y, void* dy, float* sums, float* scratch);

// Contract: loss_primitives.h. `results` [positions or rows, kLossResults] is scratch memory.
inline constexpr int kLossResults = 4;  // The number of fields of LossResult.
cudaError_t SoftmaxCrossEntropy(cudaStream_t stream, ElementType type, const SoftmaxCrossEntropyShape& shape,
                                const LossTensors& tensors, double* results);
cudaError_t MeanSquaredError(cudaStream_t stream, ElementType type, const MeanSquaredErrorShape& shape,
                             const LossTensors& tensors, double* results);

// The part of the arena that one block of threads updates.
struct UpdateTile {
  int64_t begin;
  int32_t count;
  float weight_decay;
};
inline constexpr int32_t kUpdateTileElements = 4096;
struct UpdateArguments {
  UpdateConstants constants;
  const UpdateRates* rates;
  int64_t part_begin, part_end;  // Elements outside this part are not changed.
  const UpdateTile* tiles;
  float* parameters;
  const float* gradient_sums;
  float* slots[kMostSlots] = {};
  int32_t* bad;
  const float* tile_ratios = nullptr;  // The trust ratio of each tile's region; null if the formula has none.
};
// Contract: UpdatePrimitive. FindBad searches the gradients for values that are not finite, and
// looks whether the rates refuse the update. Update changes
// parameters and slots.
cudaError_t FindBad(cudaStream_t stream, const UpdateArguments& arguments, int64_t tile_count);
cudaError_t Update(cudaStream_t stream, UpdateFormula formula, bool decoupled_decay,
                   const UpdateArguments& arguments, int64_t tile_count);
// FindTrustRatios computes the trust ratios that Update uses: first the sums over each tile, then the ratio
// of each tile's region.
struct TrustRegion {
  int64_t first_tile, tile_count;
  float weight_decay;
  int32_t adapted;
};
struct TrustArguments {
  int64_t region_count;
  const TrustRegion* regions;
  // tile_squares and tile_ratios have one value per tile.
  RegionSquares* tile_squares;
  float* tile_ratios;
};
cudaError_t FindTrustRatios(cudaStream_t stream, UpdateFormula formula, const UpdateArguments& arguments,
                            int64_t tile_count, const TrustArguments& trust);
// Contract: ClipPrimitive. `tile_sums` is scratch memory for one number per tile.
cudaError_t Clip(cudaStream_t stream, double limit, const UpdateTile* tiles, int64_t tile_count,
                 const float* gradient_sums, double* tile_sums, UpdateRates* rates);
// The number of slots that the formula keeps.
int UpdateSlots(UpdateFormula formula);

// Contract: BatchNormalisationPrimitive. The pointers are to device memory that the primitive owns.
struct NormalisationArguments {
  ElementType type;  // The type of activations.
  int64_t rows, positions, channels, groups;
  int64_t tiles;  // The number of tiles into which a group's positions are cut. Tiles are summed in parallel.
  float epsilon;
  bool relu;
  double *tile_sums, *tile_products;              // [groups, tiles, channels]
  int64_t* begins;                                // [groups + 1]
  float *means, *variances, *inverse_deviations;  // [groups, channels]
  float *mean_gradients, *slopes;                 // [groups, channels]
  // Memory for sums over all workers; `groups` must then be 1. Null: the statistics are of this worker's
  // batch alone. worker_moments contains a number for each channel: at first the mean times the number of
  // rows, later the sum of squared deviations. Its last element is the number of rows.
  float* worker_moments;    // [channels + 1]
  float* worker_gradients;  // [2, channels]
};
cudaError_t BatchNormalisationForward(cudaStream_t stream, const NormalisationArguments& arguments,
                                      const void* x, const float* weights, const float* scale,
                                      const float* offset, void* y);
// BatchNormalisationForward in three parts, for statistics over all workers' batches. Between the first two
// parts, the caller sums worker_moments [channels + 1] over the workers; between the last two, worker_moments
// [channels].
cudaError_t OwnMeans(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                     const float* weights);
cudaError_t OwnSquares(cudaStream_t stream, const NormalisationArguments& arguments);
cudaError_t NormaliseByWorkers(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                               const float* scale, const float* offset, void* y);
cudaError_t NormaliseAgain(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                           const float* scale, const float* offset, void* y);
cudaError_t BatchNormalisationBackward(cudaStream_t stream, const NormalisationArguments& arguments,
                                       const void* x, const float* scale, const float* offset, const void* dy,
                                       void* dx, float* dscale, float* doffset);
// BatchNormalisationBackward in two parts. Between them, the caller sums worker_gradients over the workers.
cudaError_t OwnGradients(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                         const float* scale, const float* offset, const void* dy, float* dscale,
                         float* doffset);
cudaError_t GradientByWorkers(cudaStream_t stream, const NormalisationArguments& arguments, const void* x,
                              const float* scale, const float* offset, const void* dy, void* dx);
cudaError_t BatchNormalisationInfer(cudaStream_t stream, const NormalisationArguments& arguments,
                                    const void* x, const float* mean, const float* variance,
                                    const float* scale, const float* offset, void* y);
cudaError_t UpdateMovingStatistics(cudaStream_t stream, const NormalisationArguments& arguments, float decay,
                                   bool later_part, const float* share, const int32_t* refused, float* mean,
                                   float* variance);

// Contract: ActivationPrimitive.
cudaError_t Activate(cudaStream_t stream, ElementType type, ActivationFunction function, int64_t count,
                     const void* x, void* y);
cudaError_t ActivateBackward(cudaStream_t stream, ElementType type, ActivationFunction function,
                             int64_t count, const void* y, const void* dy, void* dx);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_KERNELS_H_
