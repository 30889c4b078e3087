// The optimizers' kernel: a template over the formulas, one block of threads for each tile.
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/update_formulas.h"

namespace tethys::cuda {
namespace {

// Elements [begin, end) of a block's tile that lie in the part to update.
struct TilePart {
  int64_t begin, end;
};
__device__ TilePart PartOf(const UpdateTile& tile, const UpdateArguments& arguments) {
  const int64_t end = tile.begin + tile.count;
  return {tile.begin > arguments.part_begin ? tile.begin : arguments.part_begin,
          end < arguments.part_end ? end : arguments.part_end};
}

__global__ void FindBadKernel(UpdateArguments arguments) {
  const TilePart part = PartOf(arguments.tiles[blockIdx.x], arguments);
  bool found = arguments.rates->refused != 0;
  for (int64_t i = part.begin + threadIdx.x; i < part.end; i += kThreads)
    found |= !isfinite(arguments.gradient_sums[i]);
  if (found) *arguments.bad = 1;  // All threads that write *bad write the same value.
}

// UpdateKernel handles four elements at a time if their addresses are aligned, as the beginnings of all
// variables of an arena are.
constexpr int kFour = 4;

template <class Formula, bool kDecoupled>
__global__ void UpdateKernel(UpdateArguments arguments) {
  if (*arguments.bad != 0) return;
  constexpr int kSlots = Formula::kSlots, kChanged = kUpdatedSlots<Formula>;
  const UpdateTile tile = arguments.tiles[blockIdx.x];
  const UpdateRates rates = *arguments.rates;
  RegionFactors region;
  region.weight_decay = tile.weight_decay;
  if constexpr (kHasTrustRatio<Formula>) region.trust_ratio = arguments.tile_ratios[blockIdx.x];
  const float loss = rates.learning_rate * region.weight_decay;
  const auto update = [&](float gradient, float& w, float* slots) {
    UpdateElement<Formula, kDecoupled>(arguments.constants, rates, region, loss, gradient, w, slots);
  };
  const TilePart part = PartOf(tile, arguments);
  int64_t begin = part.begin;
  if (begin % kFour == 0 && begin < part.end) {
    const int64_t fours = (part.end - begin) / kFour;
    float4* w4 = reinterpret_cast<float4*>(arguments.parameters + begin);
    const float4* g4 = reinterpret_cast<const float4*>(arguments.gradient_sums + begin);
    for (int64_t i = threadIdx.x; i < fours; i += kThreads) {
      float4 w = w4[i];
      const float4 g = g4[i];
      float slots[kFour][kMostSlots];
      for (int slot = 0; slot < kSlots; ++slot) {
        const float4 four = reinterpret_cast<const float4*>(arguments.slots[slot] + begin)[i];
        slots[0][slot] = four.x;
        slots[1][slot] = four.y;
        slots[2][slot] = four.z;
        slots[3][slot] = four.w;
      }
      update(g.x, w.x, slots[0]);
      update(g.y, w.y, slots[1]);
      update(g.z, w.z, slots[2]);
      update(g.w, w.w, slots[3]);
      w4[i] = w;
      for (int slot = 0; slot < kChanged; ++slot) {
        reinterpret_cast<float4*>(arguments.slots[slot] + begin)[i] = {slots[0][slot], slots[1][slot],
                                                                       slots[2][slot], slots[3][slot]};
      }
    }
    begin += fours * kFour;
  }
  for (int64_t i = begin + threadIdx.x; i < part.end; i += kThreads) {
    float slots[kMostSlots];
    for (int slot = 0; slot < kSlots; ++slot) slots[slot] = arguments.slots[slot][i];
    update(arguments.gradient_sums[i], arguments.parameters[i], slots);
    for (int slot = 0; slot < kChanged; ++slot) arguments.slots[slot][i] = slots[slot];
  }
}

// Adds the values of all threads of a block; the result is valid in thread 0.
__device__ double SumOverBlock(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[threadIdx.x];
}

// One block per tile: tile_sums[tile] = sum of the squares of its gradients.
__global__ void SumSquaresKernel(const UpdateTile* tiles, const float* gradient_sums, double* tile_sums) {
  const UpdateTile tile = tiles[blockIdx.x];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < tile.count; i += kThreads) {
    const double value = gradient_sums[tile.begin + i];
    sum += value * value;
  }
  sum = SumOverBlock(sum);
  if (threadIdx.x == 0) tile_sums[blockIdx.x] = sum;
}

// Runs with one block.
__global__ void ClipKernel(double limit, int64_t tile_count, const double* tile_sums, UpdateRates* rates) {
  double sum = 0;
  for (int64_t tile = threadIdx.x; tile < tile_count; tile += kThreads) sum += tile_sums[tile];
  sum = SumOverBlock(sum);
  if (threadIdx.x == 0) rates->gradient_scale = ClippedScale(rates->gradient_scale, sum, limit);
}

// Runs with one block per tile. Writes tile_squares[tile], and the slots that Formula::Measured changes.
template <class Formula>
__global__ void MeasureKernel(UpdateArguments arguments, RegionSquares* tile_squares) {
  if (*arguments.bad != 0) return;
  constexpr int kChanged = kMeasuredSlots<Formula>;
  const UpdateTile tile = arguments.tiles[blockIdx.x];
  const UpdateRates rates = *arguments.rates;
  RegionSquares sums;
  for (int64_t i = tile.begin + threadIdx.x; i < tile.begin + tile.count; i += kThreads) {
    float slots[kMostSlots];
    for (int slot = 0; slot < kChanged; ++slot) slots[slot] = arguments.slots[slot][i];
    const float w = arguments.parameters[i], g = arguments.gradient_sums[i] * rates.gradient_scale;
    const double measured = Formula::Measured(arguments.constants, rates, tile.weight_decay, g, w, slots);
    for (int slot = 0; slot < kChanged; ++slot) arguments.slots[slot][i] = slots[slot];
    sums.parameters += double{w} * w;
    sums.measured += measured * measured;
  }
  sums.parameters = SumOverBlock(sums.parameters);
  __syncthreads();  // Waits, because both sums use the same shared memory.
  sums.measured = SumOverBlock(sums.measured);
  if (threadIdx.x == 0) tile_squares[blockIdx.x] = sums;
}

// Runs with one block per region.
template <class Formula>
__global__ void TrustRatioKernel(UpdateConstants constants, TrustArguments trust) {
  const TrustRegion region = trust.regions[blockIdx.x];
  const int64_t end = region.first_tile + region.tile_count;
  RegionSquares sums;
  for (int64_t tile = region.first_tile + threadIdx.x; tile < end; tile += kThreads) {
    sums.parameters += trust.tile_squares[tile].parameters;
    sums.measured += trust.tile_squares[tile].measured;
  }
  sums.parameters = SumOverBlock(sums.parameters);
  __syncthreads();  // Waits, because both sums use the same shared memory.
  sums.measured = SumOverBlock(sums.measured);
  __shared__ float ratio;
  if (threadIdx.x == 0) {
    ratio = region.adapted != 0 ? TrustRatio<Formula>(constants, region.weight_decay, sums) : 1;
  }
  __syncthreads();
  for (int64_t tile = region.first_tile + threadIdx.x; tile < end; tile += kThreads)
    trust.tile_ratios[tile] = ratio;
}

struct FormulaKernels {
  int slots;
  void (*coupled)(UpdateArguments);
  // If the formula has a trust ratio, `decoupled` is null; otherwise `measure` and `trust_ratio` are null.
  void (*decoupled)(UpdateArguments);
  void (*measure)(UpdateArguments, RegionSquares*);
  void (*trust_ratio)(UpdateConstants, TrustArguments);
};
template <class Formula>
constexpr FormulaKernels KernelsFor() {
  if constexpr (kHasTrustRatio<Formula>) {
    return {Formula::kSlots, UpdateKernel<Formula, false>, nullptr, MeasureKernel<Formula>,
            TrustRatioKernel<Formula>};
  } else {
    return {Formula::kSlots, UpdateKernel<Formula, false>, UpdateKernel<Formula, true>, nullptr, nullptr};
  }
}
template <class List>
struct KernelTable;
template <class... Formulas>
struct KernelTable<FormulaList<Formulas...>> {
  static constexpr FormulaKernels kRows[] = {KernelsFor<Formulas>()...};
};
const FormulaKernels& KernelsOf(UpdateFormula formula) {
  return KernelTable<UpdateFormulaList>::kRows[static_cast<int>(formula)];
}

}  // namespace

cudaError_t FindBad(cudaStream_t stream, const UpdateArguments& arguments, int64_t tile_count) {
  if (tile_count == 0) return cudaSuccess;
  return Launch(FindBadKernel, static_cast<unsigned>(tile_count), kThreads, stream, arguments);
}

cudaError_t Update(cudaStream_t stream, UpdateFormula formula, bool decoupled_decay,
                   const UpdateArguments& arguments, int64_t tile_count) {
  if (tile_count == 0) return cudaSuccess;
  const FormulaKernels& kernels = KernelsOf(formula);
  return Launch(decoupled_decay ? kernels.decoupled : kernels.coupled, static_cast<unsigned>(tile_count),
                kThreads, stream, arguments);
}

cudaError_t FindTrustRatios(cudaStream_t stream, UpdateFormula formula, const UpdateArguments& arguments,
                            int64_t tile_count, const TrustArguments& trust) {
  if (tile_count == 0) return cudaSuccess;
  const FormulaKernels& kernels = KernelsOf(formula);
  const cudaError_t launched = Launch(kernels.measure, static_cast<unsigned>(tile_count), kThreads, stream,
                                      arguments, trust.tile_squares);
  if (launched != cudaSuccess) return launched;
  return Launch(kernels.trust_ratio, static_cast<unsigned>(trust.region_count), kThreads, stream,
                arguments.constants, trust);
}

cudaError_t Clip(cudaStream_t stream, double limit, const UpdateTile* tiles, int64_t tile_count,
                 const float* gradient_sums, double* tile_sums, UpdateRates* rates) {
  if (tile_count == 0) return cudaSuccess;
  const cudaError_t launched = Launch(SumSquaresKernel, static_cast<unsigned>(tile_count), kThreads, stream,
                                      tiles, gradient_sums, tile_sums);
  if (launched != cudaSuccess) return launched;
  return Launch(ClipKernel, 1, kThreads, stream, limit, tile_count, tile_sums, rates);
}

int UpdateSlots(UpdateFormula formula) { return KernelsOf(formula).slots; }

}  // namespace tethys::cuda
