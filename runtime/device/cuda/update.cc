// The update of parameters by an optimizer's rule, and clipping: our own kernels.
#include <algorithm>
#include <utility>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/device_table.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

// The buffers that trust ratios need; null if the formula has no trust ratio.
struct TrustBuffers {
  int64_t region_count = 0;
  std::unique_ptr<Buffer> regions, tile_squares, tile_ratios;
};

class RuleUpdate final : public UpdatePrimitive {
 public:
  RuleUpdate(const UpdateRule& rule, int64_t tile_count, std::unique_ptr<Buffer> tiles, TrustBuffers trust)
      : rule_(rule), tile_count_(tile_count), tiles_(std::move(tiles)), trust_(std::move(trust)) {}

  absl::Status Run(Stream& stream, const UpdateStep& step, float* parameters, const float* gradient_sums,
                   absl::Span<float* const> slots, int32_t* bad) override {
    const int kept = UpdateSlots(rule_.formula);
    TETHYS_CHECK(static_cast<int>(slots.size()) == kept, "this rule keeps ", kept, " slots, not ",
                 slots.size());
    UpdateArguments arguments = {.constants = rule_.constants,
                                 .rates = step.rates,
                                 .part_begin = step.part.begin,
                                 .part_end = step.part.end(),
                                 .tiles = static_cast<const UpdateTile*>(tiles_->data()),
                                 .parameters = parameters,
                                 .gradient_sums = gradient_sums,
                                 .bad = bad};
    std::copy(slots.begin(), slots.end(), arguments.slots);
    if (step.check_finite) {
      TETHYS_RETURN_IF_CUDA_ERROR(FindBad(Handle(stream), arguments, tile_count_));
    }
    if (HasTrustRatio(rule_.formula)) {
      TETHYS_CHECK(step.part == kWholeArena, "an update with a trust ratio needs the whole arena");
      const TrustArguments trust = {
          .region_count = trust_.region_count,
          .regions = static_cast<const TrustRegion*>(trust_.regions->data()),
          .tile_squares = static_cast<RegionSquares*>(trust_.tile_squares->data()),
          .tile_ratios = static_cast<float*>(trust_.tile_ratios->data()),
      };
      arguments.tile_ratios = trust.tile_ratios;
      TETHYS_RETURN_IF_CUDA_ERROR(
          FindTrustRatios(Handle(stream), rule_.formula, arguments, tile_count_, trust));
    }
    TETHYS_RETURN_IF_CUDA_ERROR(
        Update(Handle(stream), rule_.formula, rule_.decoupled_decay, arguments, tile_count_));
    return absl::OkStatus();
  }

 private:
  const UpdateRule rule_;
  const int64_t tile_count_;
  const std::unique_ptr<Buffer> tiles_;
  const TrustBuffers trust_;
};

class GlobalNormClip final : public ClipPrimitive {
 public:
  GlobalNormClip(double limit, int64_t tile_count, std::unique_ptr<Buffer> tiles,
                 std::unique_ptr<Buffer> tile_sums)
      : limit_(limit), tile_count_(tile_count), tiles_(std::move(tiles)), tile_sums_(std::move(tile_sums)) {}

  absl::Status Run(Stream& stream, const float* gradient_sums, UpdateRates* rates) override {
    TETHYS_RETURN_IF_CUDA_ERROR(Clip(Handle(stream), limit_, static_cast<const UpdateTile*>(tiles_->data()),
                                     tile_count_, gradient_sums, static_cast<double*>(tile_sums_->data()),
                                     rates));
    return absl::OkStatus();
  }

 private:
  const double limit_;
  const int64_t tile_count_;
  const std::unique_ptr<Buffer> tiles_;
  const std::unique_ptr<Buffer> tile_sums_;
};

std::vector<UpdateTile> CutIntoTiles(const std::vector<UpdateRegion>& regions) {
  std::vector<UpdateTile> tiles;
  for (const UpdateRegion& region : regions) {
    for (int64_t begin = region.range.begin; begin < region.range.end(); begin += kUpdateTileElements) {
      const int64_t count = std::min<int64_t>(kUpdateTileElements, region.range.end() - begin);
      tiles.push_back({begin, static_cast<int32_t>(count), region.weight_decay});
    }
  }
  return tiles;
}

// The tiles of the regions, in the order of CutIntoTiles.
std::vector<TrustRegion> TilesOfRegions(const std::vector<UpdateRegion>& regions) {
  std::vector<TrustRegion> result;
  int64_t tiles = 0;
  for (const UpdateRegion& region : regions) {
    const int64_t count = (region.range.count + kUpdateTileElements - 1) / kUpdateTileElements;
    result.push_back({tiles, count, region.weight_decay, region.adapted ? 1 : 0});
    tiles += count;
  }
  return result;
}

absl::StatusOr<TrustBuffers> AllocateTrustBuffers(const Libraries& libraries,
                                                  const std::vector<UpdateRegion>& regions,
                                                  int64_t tile_count) {
  const auto allocate = [&](size_t bytes_of_tile) {
    return libraries.memory->Allocate(tile_count * static_cast<int64_t>(bytes_of_tile), MemoryKind::kDevice);
  };
  TrustBuffers buffers;
  buffers.region_count = static_cast<int64_t>(regions.size());
  TETHYS_ASSIGN_OR_RETURN(buffers.regions, OnDevice(*libraries.memory, TilesOfRegions(regions)));
  TETHYS_ASSIGN_OR_RETURN(buffers.tile_squares, allocate(sizeof(RegionSquares)));
  TETHYS_ASSIGN_OR_RETURN(buffers.tile_ratios, allocate(sizeof(float)));
  return buffers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(const Libraries& libraries,
                                                              const UpdateRule& rule,
                                                              const std::vector<UpdateRegion>& regions) {
  const std::vector<UpdateTile> tiles = CutIntoTiles(regions);
  const auto count = static_cast<int64_t>(tiles.size());
  TETHYS_ASSIGN_OR_RETURN(auto on_device, OnDevice(*libraries.memory, tiles));
  TrustBuffers trust;
  if (HasTrustRatio(rule.formula)) {
    TETHYS_ASSIGN_OR_RETURN(trust, AllocateTrustBuffers(libraries, regions, count));
  }
  return std::make_unique<RuleUpdate>(rule, count, std::move(on_device), std::move(trust));
}

absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(const Libraries& libraries, double limit,
                                                          const std::vector<UpdateRegion>& regions) {
  const std::vector<UpdateTile> tiles = CutIntoTiles(regions);
  const auto count = static_cast<int64_t>(tiles.size());
  TETHYS_ASSIGN_OR_RETURN(auto on_device, OnDevice(*libraries.memory, tiles));
  TETHYS_ASSIGN_OR_RETURN(auto sums, libraries.memory->Allocate(count * static_cast<int64_t>(sizeof(double)),
                                                                MemoryKind::kDevice));
  return std::make_unique<GlobalNormClip>(limit, count, std::move(on_device), std::move(sums));
}

}  // namespace tethys::cuda
