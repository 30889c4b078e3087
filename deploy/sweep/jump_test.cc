#include "deploy/sweep/jump_test.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "deploy/sweep/segment_fit.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

constexpr double kLeastShare = 0.02;
constexpr double kLeastInHalves = 0.4;
constexpr double kMostP = 0.05;
constexpr int kSurrogates = 199;
// The jump may also be at another place than the best cut, if a cut there increases chi-square by at most
// this.
constexpr double kPositionCost = 6;
// The size of a jump is computed from at most this many points on each side of the cut.
constexpr size_t kSide = 12;
constexpr int kPlantedCurves = 20, kLeastFound = 18;
constexpr std::array<double, 7> kPlantedShares = {0.02, 0.025, 0.03, 0.04, 0.05, 0.07, 0.1};

// The numbers of points before and after a cut that belong to the segments beside it, at most kSide.
struct Sides {
  size_t before = kSide, after = kSide;
};

// The jump at `cut`, as a share of the value before the cut. The jump is the distance between two lines,
// through the points before and after the cut, midway between the two nearest points.
double JumpShare(const CurvePoints& points, size_t cut, const Sides& sides) {
  const LineFit before = points.Line(cut - std::min(cut, sides.before), cut);
  const LineFit after = points.Line(cut, std::min(points.size(), cut + sides.after));
  const double middle = (points.x()[cut - 1] + points.x()[cut]) / 2;
  return (after.At(middle) - before.At(middle)) / points.y()[cut - 1];
}

class Finder {
 public:
  explicit Finder(const RoundTimes& rounds)
      : rounds_(rounds),
        values_(LowerQuartiles(rounds)),
        error_(PooledError(rounds.batch, values_)),
        points_(rounds.batch, values_, error_) {
    for (const size_t cut : FindCuts(points_)) cuts_.push_back(cut);
    KeepGuarded();
  }

  const std::vector<double>& values() const { return values_; }
  double error() const { return error_; }
  const CurvePoints& points() const { return points_; }
  const std::vector<size_t>& cuts() const { return cuts_; }

  // Removes the cut at `index`; the cuts beside it then have more points.
  void Remove(size_t index) { cuts_.erase(cuts_.begin() + static_cast<std::ptrdiff_t>(index)); }

  size_t Begin(size_t segment) const { return segment == 0 ? 0 : cuts_[segment - 1]; }
  size_t End(size_t segment) const { return segment == cuts_.size() ? points_.size() : cuts_[segment]; }
  LineFit Line(size_t segment) const { return points_.Line(Begin(segment), End(segment)); }
  Sides SidesOf(size_t index) const {
    return {.before = std::min(kSide, cuts_[index] - Begin(index)),
            .after = std::min(kSide, End(index + 1) - cuts_[index])};
  }
  double Share(size_t index) const { return JumpShare(points_, cuts_[index], SidesOf(index)); }

  // The fit without its jumps: each segment begins where the previous one ends. A value of this curve is at
  // least a tenth of the measured value.
  std::vector<double> WithoutJumps() const {
    std::vector<double> fit(points_.size());
    double lowered = 0;
    for (size_t segment = 0; segment <= cuts_.size(); ++segment) {
      const LineFit line = Line(segment);
      if (segment > 0) {
        const size_t cut = cuts_[segment - 1];
        const double middle = (points_.x()[cut - 1] + points_.x()[cut]) / 2;
        lowered += line.At(middle) - Line(segment - 1).At(middle);
      }
      for (size_t i = Begin(segment); i < End(segment); ++i) {
        fit[i] = std::max(line.At(points_.x()[i]) - lowered, values_[i] / 10);
      }
    }
    return fit;
  }

  // The residual of each point: value / fit.
  std::vector<double> Residuals() const {
    std::vector<double> residuals(points_.size());
    for (size_t segment = 0; segment <= cuts_.size(); ++segment) {
      for (size_t i = Begin(segment); i < End(segment); ++i) {
        residuals[i] = values_[i] / std::max(Line(segment).At(points_.x()[i]), values_[i] / 10);
      }
    }
    return residuals;
  }

 private:
  // Removes the cuts that fail the criteria, one after the other. Each time, the failing cut with the
  // smallest jump is removed, because its neighbours then have more points and may pass.
  void KeepGuarded() {
    const std::array<CurvePoints, 2> halves = {Half(0), Half(1)};
    while (true) {
      size_t worst = cuts_.size();
      for (size_t i = 0; i < cuts_.size(); ++i) {
        if (Passes(i, halves)) continue;
        if (worst == cuts_.size() || std::abs(Share(i)) < std::abs(Share(worst))) worst = i;
      }
      if (worst == cuts_.size()) return;
      Remove(worst);
    }
  }

  CurvePoints Half(size_t first) const { return {rounds_.batch, LowerQuartiles(rounds_, first, 2), error_}; }

  bool Passes(size_t index, const std::array<CurvePoints, 2>& halves) const {
    const double share = Share(index);
    if (std::abs(share) < kLeastShare) return false;
    return std::all_of(halves.begin(), halves.end(), [&](const CurvePoints& half) {
      const double seen = JumpShare(half, cuts_[index], SidesOf(index));
      return seen * share > 0 && std::abs(seen) >= kLeastInHalves * std::abs(share);
    });
  }

  const RoundTimes& rounds_;
  const std::vector<double> values_;
  const double error_;
  const CurvePoints points_;
  std::vector<size_t> cuts_;
};

// The share of random curves, made without jumps, whose largest jump at any place is at least as large as the
// jump at cut `index`.
double PValue(const Finder& finder, size_t index, uint64_t seed) {
  const std::vector<double> fit = finder.WithoutJumps(), residuals = finder.Residuals();
  const auto count = static_cast<uint32_t>(fit.size());
  const Sides sides = finder.SidesOf(index);
  const double share = std::abs(finder.Share(index));
  RandomStream random(seed, RandomPurpose::kShuffle, finder.cuts()[index]);
  int as_large = 0;
  for (int surrogate = 0; surrogate < kSurrogates; ++surrogate) {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = fit[i] * residuals[random.NextBelow(count)];
    const CurvePoints points(finder.points().x(), std::move(values), finder.error());
    double largest = 0;
    for (size_t cut = sides.before; cut + sides.after <= count; ++cut) {
      largest = std::max(largest, std::abs(JumpShare(points, cut, sides)));
    }
    if (largest >= share) ++as_large;
  }
  return (as_large + 1.0) / (kSurrogates + 1.0);
}

proto::Jump JumpOf(const Finder& finder, size_t index, double p) {
  const CurvePoints& points = finder.points();
  const size_t cut = finder.cuts()[index], begin = finder.Begin(index), end = finder.End(index + 1);
  const auto cost = [&](size_t at) { return points.Cost(begin, at) + points.Cost(at, end); };
  size_t least = cut, most = cut;
  for (size_t at = begin + 2; at + 2 <= end; ++at) {
    if (cost(at) > cost(cut) + kPositionCost) continue;
    least = std::min(least, at);
    most = std::max(most, at);
  }
  const auto batch_before = [&](size_t at) { return std::llround(points.x()[at - 1]); };
  proto::Jump jump;
  jump.set_after(batch_before(cut));
  jump.set_least(batch_before(least));
  jump.set_most(batch_before(most));
  jump.set_share(finder.Share(index));
  jump.set_seconds(jump.share() * points.y()[cut - 1]);
  jump.set_p(p);
  return jump;
}

// Makes curves like `rounds` without its jumps: the fit, times residuals that are drawn from the same round.
class PlantedRounds {
 public:
  explicit PlantedRounds(const RoundTimes& rounds)
      : rounds_(rounds), finder_(rounds), fit_(finder_.WithoutJumps()) {}

  // Makes a curve with a jump before point `at`.
  RoundTimes Make(size_t at, double share, RandomStream& random) const {
    RoundTimes made{.batch = rounds_.batch, .time = rounds_.time};
    for (std::vector<double>& times : made.time) {
      std::vector<double> ratios;
      for (size_t i = 0; i < times.size(); ++i) {
        if (times[i] > 0) ratios.push_back(times[i] / finder_.values()[i]);
      }
      for (size_t i = 0; i < times.size(); ++i) {
        if (times[i] == 0) continue;
        const double ratio = ratios[random.NextBelow(static_cast<uint32_t>(ratios.size()))];
        times[i] = (fit_[i] + (i >= at ? share * fit_[at - 1] : 0)) * ratio;
      }
    }
    return made;
  }

 private:
  const RoundTimes& rounds_;
  const Finder finder_;
  const std::vector<double> fit_;
};

}  // namespace

Jumps FindJumps(const RoundTimes& rounds, uint64_t seed) {
  Finder finder(rounds);
  std::vector<double> p;
  // Removing a cut changes the segments beside its neighbours, so all cuts are tested again.
  for (size_t i = 0; i < finder.cuts().size();) {
    p.resize(i);
    p.push_back(PValue(finder, i, seed));
    if (p.back() <= kMostP) {
      ++i;
      continue;
    }
    finder.Remove(i);
    i = 0;
  }
  Jumps found{.value = finder.values(), .error = finder.error()};
  for (size_t segment = 0; segment <= finder.cuts().size(); ++segment) {
    const LineFit line = finder.Line(segment);
    proto::Segment& out = found.segment.emplace_back();
    out.set_first(std::llround(rounds.batch[finder.Begin(segment)]));
    out.set_last(std::llround(rounds.batch[finder.End(segment) - 1]));
    out.set_at_zero(line.at_zero);
    out.set_per_sample(line.slope);
  }
  for (size_t i = 0; i < finder.cuts().size(); ++i) found.jump.push_back(JumpOf(finder, i, p[i]));
  return found;
}

double DetectableJump(const RoundTimes& rounds, uint64_t seed) {
  if (rounds.size() < kLeastJumpPoints) return 0;
  const PlantedRounds planted(rounds);
  const auto room = static_cast<uint32_t>(rounds.size() - kLeastJumpPoints + 1);
  for (const double share : kPlantedShares) {
    int found = 0;
    RandomStream random(seed, RandomPurpose::kShuffle, std::llround(share * 1e6));
    for (int curve = 0; curve < kPlantedCurves; ++curve) {
      const size_t at = kLeastJumpPoints / 2 + random.NextBelow(room);
      const RoundTimes made = planted.Make(at, share, random);
      const Finder finder(made);
      found += std::any_of(finder.cuts().begin(), finder.cuts().end(),
                           [at](size_t cut) { return cut + 1 >= at && cut <= at + 1; });
    }
    if (found >= kLeastFound) return share;
  }
  return 0;
}

}  // namespace tethys
