#include "deploy/sweep/period_test.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/sweep/segment_fit.h"
#include "deploy/text.h"
#include "runtime/base/quantile.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

constexpr int kLeastPeriod = 2, kMostPeriod = 35;
constexpr size_t kLeastRounds = 7;
constexpr int kLeastMultiples = 3;
constexpr size_t kBesideMultiple = 2;
constexpr double kLeastShare = 0.005;
constexpr int kResamples = 400;
constexpr size_t kTerms = 4;

// The median, in seconds, of the jumps of the step's time after multiples of `period`. Multiples with fewer
// than two measured batches below or above them are left out.
double JumpAfterMultiples(const std::vector<double>& batch, const std::vector<double>& y, int period) {
  const CurvePoints points(batch, y, 1);
  const auto first_above = [&](int limit) {
    return static_cast<size_t>(std::upper_bound(batch.begin(), batch.end(), limit) - batch.begin());
  };
  std::vector<double> jumps;
  for (int multiple = period; multiple < batch.back(); multiple += period) {
    const size_t begin = first_above(multiple - period), cut = first_above(multiple);
    const size_t end = first_above(multiple + period);
    if (cut - begin < kBesideMultiple || end - cut < kBesideMultiple) continue;
    const double middle = (batch[cut - 1] + batch[cut]) / 2;
    jumps.push_back(points.Line(cut, end).At(middle) - points.Line(begin, cut).At(middle));
  }
  return Median(std::move(jumps));
}

// The weighted sum of squared residuals of the formula in period_test.h. Least squares with weights 1 / y^2,
// by normal equations over terms that are scaled to about 1. Nullopt: at these batches, the steps of the
// period cannot be distinguished from a line or a bend.
std::optional<double> CostOf(const std::vector<double>& batch, const std::vector<double>& y, int period) {
  const double scale = batch.back();
  std::array<std::array<double, kTerms + 1>, kTerms> equations{};
  const auto terms = [&](double b) {
    return std::array<double, kTerms>{1, b / scale, b / scale * (b / scale),
                                      std::floor((b - 1) / period) * period / scale};
  };
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto t = terms(batch[i]);
    const double weight = 1 / (y[i] * y[i]);
    for (size_t row = 0; row < kTerms; ++row) {
      for (size_t column = 0; column < kTerms; ++column)
        equations[row][column] += weight * t[row] * t[column];
      equations[row][kTerms] += weight * t[row] * y[i];
    }
  }
  const auto original = equations;
  // Elimination without pivoting: the matrix is symmetric and positive definite.
  for (size_t pivot = 0; pivot < kTerms; ++pivot) {
    if (equations[pivot][pivot] <= 1e-7 * original[pivot][pivot]) return std::nullopt;
    for (size_t row = 0; row < kTerms; ++row) {
      if (row == pivot) continue;
      const double factor = equations[row][pivot] / equations[pivot][pivot];
      for (size_t column = pivot; column <= kTerms; ++column)
        equations[row][column] -= factor * equations[pivot][column];
    }
  }
  std::array<double, kTerms> solution;
  for (size_t i = 0; i < kTerms; ++i) solution[i] = equations[i][kTerms] / equations[i][i];
  double cost = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto t = terms(batch[i]);
    double off = y[i];
    for (size_t term = 0; term < kTerms; ++term) off -= solution[term] * t[term];
    cost += off / y[i] * (off / y[i]);
  }
  return cost;
}

// The reason why the claim cannot be tested; empty if it can be tested.
std::string Obstacle(const RoundTimes& rounds, int period) {
  if (rounds.time.size() < kLeastRounds) {
    return absl::StrCat(kLeastRounds, " rounds are needed, and ", rounds.time.size(), " were made");
  }
  int multiples = 0;
  const double last = rounds.batch.empty() ? 0 : rounds.batch.back();
  for (int multiple = period; multiple < last; multiple += period) {
    const auto within = [&](int first, int end) {
      return std::count_if(rounds.batch.begin(), rounds.batch.end(), [&](double batch) {
               return batch > first && batch <= end;
             }) >= static_cast<std::ptrdiff_t>(kBesideMultiple);
    };
    if (within(multiple - period, multiple) && within(multiple, multiple + period)) ++multiples;
  }
  if (multiples >= kLeastMultiples) return "";
  return absl::StrCat("the batches lie on both sides of ", PluralText(multiples, "multiple"), " of ", period,
                      ", but ", kLeastMultiples, " are needed");
}

// As many rounds as `rounds` has, drawn from `rounds` with replacement.
RoundTimes Resampled(const RoundTimes& rounds, RandomStream& random) {
  RoundTimes made{.batch = rounds.batch, .time = {}};
  for (size_t i = 0; i < rounds.time.size(); ++i) {
    made.time.push_back(rounds.time[random.NextBelow(static_cast<uint32_t>(rounds.time.size()))]);
  }
  return made;
}

}  // namespace

proto::PeriodTest TestPeriod(const RoundTimes& rounds, int period, uint64_t seed) {
  proto::PeriodTest test;
  test.set_reason(Obstacle(rounds, period));
  if (!test.reason().empty()) return test;
  const std::vector<double> values = LowerQuartiles(rounds);
  const double median = Median(values);
  const std::optional<double> cost = CostOf(rounds.batch, values, period);
  if (!cost.has_value()) {
    test.set_reason(
        "with these batch sizes, jumps of this period cannot be distinguished from a straight line");
    return test;
  }
  test.set_rank(1);
  for (int other = kLeastPeriod; other <= kMostPeriod; ++other) {
    const std::optional<double> rival = CostOf(rounds.batch, values, other);
    if (!rival.has_value()) continue;
    test.set_periods(test.periods() + 1);
    if (other != period && *rival <= *cost) test.set_rank(test.rank() + 1);
  }
  std::vector<double> shares;
  RandomStream random(seed, RandomPurpose::kShuffle, static_cast<uint64_t>(period));
  for (int i = 0; i < kResamples; ++i) {
    std::vector<double> drawn = LowerQuartiles(Resampled(rounds, random));
    for (size_t b = 0; b < drawn.size(); ++b) {
      // Only rounds without this batch were drawn, so its original value is used.
      if (drawn[b] == 0) drawn[b] = values[b];
    }
    shares.push_back(JumpAfterMultiples(rounds.batch, drawn, period) / median);
  }
  test.set_share(JumpAfterMultiples(rounds.batch, values, period) / median);
  test.set_low(Quantile(shares, 0.025));
  test.set_high(Quantile(shares, 0.975));
  test.set_excluded_above(std::max(std::abs(test.low()), std::abs(test.high())));
  const bool excludes_none = test.low() > 0 || test.high() < 0;
  const bool seen = excludes_none && std::abs(test.share()) >= kLeastShare && test.rank() == 1;
  test.set_verdict(seen ? proto::PeriodTest::SEEN : proto::PeriodTest::NOT_SEEN);
  return test;
}

}  // namespace tethys
