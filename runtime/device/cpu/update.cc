// The update of parameters by an optimizer's rule, and clipping.
#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/device/update_formulas.h"

namespace tethys::cpu {
namespace {

class RuleUpdate final : public UpdatePrimitive {
 public:
  RuleUpdate(const UpdateRule& rule, std::vector<UpdateRegion> regions, int threads, const Kernels& kernels)
      : regions_(InOrder(std::move(regions))),
        constants_(rule.constants),
        loops_(kernels.updates[static_cast<int>(rule.formula)]),
        loop_(rule.decoupled_decay ? loops_.decoupled : loops_.coupled),
        threads_(threads),
        kernels_(kernels) {}

  absl::Status Run(Stream&, const UpdateStep& step, float* parameters, const float* gradient_sums,
                   absl::Span<float* const> slots, int32_t* bad) override {
    TETHYS_CHECK(static_cast<int>(slots.size()) == loops_.slots, "this rule keeps ", loops_.slots,
                 " slots, not ", slots.size());
    TETHYS_CHECK(
        loops_.measure == nullptr || step.part == kWholeArena || !step.squares.empty(),
        "an update with a trust ratio needs the whole arena, or the sums of squares of whole variables");
    const FlushDenormals flush;
    const absl::Span<const UpdateRegion> regions = RegionsOf(step.part);
    if (step.check_finite) {
      if (step.rates->refused != 0) *bad = 1;
      for (const UpdateRegion& region : regions) {
        const Range range = Intersection(region.range, step.part);
        if (!AllFinite(range.count, gradient_sums + range.begin)) *bad = 1;
      }
    }
    if (*bad != 0) return absl::OkStatus();
    for (auto region = regions.rbegin(); region != regions.rend(); ++region) {
      const Range range = Intersection(region->range, step.part);
      RegionFactors factors = {.weight_decay = region->weight_decay};
      if (loops_.measure != nullptr) {
        const RegionSquares squares =
            step.squares.empty() ? MeasureRegion(*region, *step.rates, parameters, gradient_sums, slots)
                                 : step.squares[&*region - regions_.data()];
        factors.trust_ratio =
            region->adapted ? loops_.trust_ratio(constants_, region->weight_decay, squares) : 1;
      }
      Update(range, factors, *step.rates, parameters, gradient_sums, slots);
    }
    return absl::OkStatus();
  }

  absl::Status Measure(Stream&, const UpdateStep& step, const float* parameters, const float* gradient_sums,
                       absl::Span<float* const> slots, absl::Span<RegionSquares> squares) override {
    TETHYS_CHECK(loops_.measure != nullptr && squares.size() == regions_.size());
    const FlushDenormals flush;
    for (size_t i = 0; i < regions_.size(); ++i) {
      squares[i] = MeasureRegion(regions_[i], *step.rates, parameters, gradient_sums, slots);
    }
    return absl::OkStatus();
  }

 private:
  static std::vector<UpdateRegion> InOrder(std::vector<UpdateRegion> regions) {
    std::sort(regions.begin(), regions.end(),
              [](const UpdateRegion& a, const UpdateRegion& b) { return a.range.begin < b.range.begin; });
    return regions;
  }

  // Finds the regions that overlap the part. The search is binary because a server updates its memory in
  // thousands of parts.
  absl::Span<const UpdateRegion> RegionsOf(Range part) const {
    const auto ends_before = [](const UpdateRegion& region, int64_t position) {
      return region.range.end() <= position;
    };
    const auto begins_before = [](const UpdateRegion& region, int64_t position) {
      return region.range.begin < position;
    };
    const auto first = std::lower_bound(regions_.begin(), regions_.end(), part.begin, ends_before);
    const auto last = std::lower_bound(first, regions_.end(), part.end(), begins_before);
    return {regions_.data() + (first - regions_.begin()), static_cast<size_t>(last - first)};
  }

  bool AllFinite(int64_t count, const float* values) const {
    std::atomic<bool> finite = true;
    ForEachPart(threads_, count, kLeastElements, [&](int64_t begin, int64_t end) {
      if (!kernels_.all_finite(end - begin, values + begin)) finite = false;
    });
    return finite;
  }

  // Updates in blocks from the end to the start: the elements that the finite check read last are still in
  // the cache, and the next forward pass begins with the elements that the update touched last. (A step of
  // the model 784-300-100-10 takes 1 to 2 % less time.)
  void Update(Range range, const RegionFactors& factors, const UpdateRates& rates, float* parameters,
              const float* gradient_sums, absl::Span<float* const> slots) const {
    ForEachPart(threads_, range.count, kLeastElements, [&](int64_t begin, int64_t end) {
      UpdatePart({.begin = range.begin + begin, .count = end - begin}, factors, rates, parameters,
                 gradient_sums, slots);
    });
  }
  void UpdatePart(Range range, const RegionFactors& factors, const UpdateRates& rates, float* parameters,
                  const float* gradient_sums, absl::Span<float* const> slots) const {
    float* slots_here[kMostSlots] = {};
    for (int64_t end = range.end(); end > range.begin; end -= kBlock) {
      const int64_t begin = std::max(range.begin, end - kBlock);
      for (size_t slot = 0; slot < slots.size(); ++slot) slots_here[slot] = slots[slot] + begin;
      loop_(end - begin, constants_, rates, factors, parameters + begin, gradient_sums + begin, slots_here);
    }
  }

  // Returns the sums of squares of the region. The formula updates some slots when it computes the vector for
  // the trust ratio (UpdateLoops::measure), so this function changes slots, even in regions without a trust
  // ratio.
  RegionSquares MeasureRegion(const UpdateRegion& region, const UpdateRates& rates, const float* parameters,
                              const float* gradient_sums, absl::Span<float* const> slots) const {
    RegionSquares squares;
    float measured[kBlock];
    float* slots_here[kMostSlots] = {};
    for (int64_t begin = region.range.begin; begin < region.range.end(); begin += kBlock) {
      const int64_t count = std::min(kBlock, region.range.end() - begin);
      for (size_t slot = 0; slot < slots.size(); ++slot) slots_here[slot] = slots[slot] + begin;
      loops_.measure(count, constants_, rates, region.weight_decay, parameters + begin, gradient_sums + begin,
                     slots_here, measured);
      squares.parameters += kernels_.sum_of_squares(count, parameters + begin);
      squares.measured += kernels_.sum_of_squares(count, measured);
    }
    return squares;
  }

  static constexpr int64_t kBlock = 4096;

  const std::vector<UpdateRegion> regions_;
  const UpdateConstants constants_;
  const UpdateLoops& loops_;
  const UpdateLoop loop_;
  const int threads_;
  const Kernels& kernels_;
};

class Clip final : public ClipPrimitive {
 public:
  Clip(double limit, std::vector<UpdateRegion> regions, const Kernels& kernels)
      : limit_(limit), regions_(std::move(regions)), kernels_(kernels) {}

  absl::Status Run(Stream&, const float* gradient_sums, UpdateRates* rates) override {
    double sum = 0;
    for (const UpdateRegion& region : regions_) {
      sum += kernels_.sum_of_squares(region.range.count, gradient_sums + region.range.begin);
    }
    rates->gradient_scale = ClippedScale(rates->gradient_scale, sum, limit_);
    return absl::OkStatus();
  }

 private:
  const double limit_;
  const std::vector<UpdateRegion> regions_;
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<ClipPrimitive> CreateClip(double limit, std::vector<UpdateRegion> regions,
                                          const Kernels& kernels) {
  return std::make_unique<Clip>(limit, std::move(regions), kernels);
}

std::unique_ptr<UpdatePrimitive> CreateUpdate(const UpdateRule& rule, std::vector<UpdateRegion> regions,
                                              int threads, const Kernels& kernels) {
  return std::make_unique<RuleUpdate>(rule, std::move(regions), threads, kernels);
}

}  // namespace tethys::cpu
