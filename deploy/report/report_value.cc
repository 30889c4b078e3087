#include "deploy/report/report_value.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/statistics.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;

// Values that differ by less than this relative deviation differ only by rounding.
constexpr double kRounding = 1e-12;
// An interval is written with ± if its middle differs from the mean by at most this share of half its width.
constexpr double kAsymmetrical = 0.1;
constexpr int kMostRunsToTell = 100;
constexpr int kFewestForAnInterval = 3;

// Half the 95 % confidence interval of a mean, difference or quotient of `a` and `b`, in units of its
// standard error: Student's t with the smaller of the two counts minus one as degrees of freedom.
double HalfInterval(const ReportValue& a, const ReportValue& b) {
  return StudentQuantile975(std::max(1, std::min(a.count(), b.count()) - 1));
}

// The standard error of a mean over several runs.
double StandardError(const ReportValue& value) { return value.deviation() / std::sqrt(value.count()); }

struct Pair {
  double a = 0;
  double b = 0;
};

// The pairs of values of runs with the same seed. Empty: the variants did not run with the same seeds.
std::vector<Pair> PairsOf(const ReportValue& a, const ReportValue& b) {
  std::map<uint64_t, Pair> pairs;
  const int runs = a.seed_size();
  if (runs < 2 || b.seed_size() != runs || a.value_size() != runs || b.value_size() != runs) return {};
  for (int i = 0; i < runs; ++i) pairs[a.seed(i)].a = a.value(i);
  if (static_cast<int>(pairs.size()) != runs) return {};
  std::vector<uint64_t> seeds(b.seed().begin(), b.seed().end());
  std::sort(seeds.begin(), seeds.end());
  if (std::adjacent_find(seeds.begin(), seeds.end()) != seeds.end()) return {};
  for (int i = 0; i < runs; ++i) {
    const auto pair = pairs.find(b.seed(i));
    if (pair == pairs.end()) return {};
    pair->second.b = b.value(i);
  }
  std::vector<Pair> all;
  for (const auto& [seed, pair] : pairs) all.push_back(pair);
  return all;
}

// The standard error of the mean of `values`; 0 if the values differ only by rounding.
double ErrorOfMean(const std::vector<double>& values, double rounding) {
  double mean = 0;
  for (const double value : values) mean += value / values.size();
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (values.size() - 1));
  return deviation <= rounding ? 0 : deviation / std::sqrt(values.size());
}

// The standard error of a.mean - b.mean. Requires several runs of each.
double ErrorOfDifference(const ReportValue& a, const ReportValue& b) {
  const std::vector<Pair> pairs = PairsOf(a, b);
  if (pairs.empty()) return std::hypot(StandardError(a), StandardError(b));
  std::vector<double> differences;
  for (const Pair& pair : pairs) differences.push_back(pair.a - pair.b);
  const double rounding = kRounding * std::max(std::abs(a.mean()), std::abs(b.mean()));
  const double error = ErrorOfMean(differences, rounding);
  // Accuracies are multiples of 1 / samples. So the differences between few runs may all be equal by chance,
  // although the runs scatter. The error is then computed from both means.
  const bool apart = std::abs(a.mean() - b.mean()) > rounding;
  return error == 0 && apart ? std::hypot(StandardError(a), StandardError(b)) : error;
}

// The standard error of the logarithm of a.mean / b.mean. Requires positive means, over several runs of each.
double ErrorOfLogarithm(const ReportValue& a, const ReportValue& b) {
  const std::vector<Pair> pairs = PairsOf(a, b);
  const bool positive =
      std::all_of(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.a > 0 && pair.b > 0; });
  if (pairs.empty() || !positive) return std::hypot(StandardError(a) / a.mean(), StandardError(b) / b.mean());
  std::vector<double> logarithms;
  for (const Pair& pair : pairs) logarithms.push_back(std::log(pair.a / pair.b));
  return ErrorOfMean(logarithms, kRounding);
}

// The evidence that `value` differs from 0. `half`: half of the 95 % interval of `value`.
Difference Evidence(double value, double half, double rounding) {
  return std::abs(value) <= half + rounding ? Difference::kNoise : Difference::kShown;
}

double Logit(double share) { return std::log(share / (1 - share)); }
double FromLogit(double logit) { return 1 / (1 + std::exp(-logit)); }

}  // namespace

double HalfWidth(const ReportValue& value) {
  return value.count() > 1 ? HalfInterval(value, value) * StandardError(value) : -1;
}

namespace {

// The interval of a mean before it is cut at the bounds of `value`.
Interval Unbounded(const ReportValue& value) {
  const double mean = value.mean();
  const double half = HalfWidth(value);
  if (value.scale() == ReportValue::SHARE && mean > 0 && mean < 1) {
    const double logits = half / (mean * (1 - mean));
    return Interval{FromLogit(Logit(mean) - logits), FromLogit(Logit(mean) + logits)};
  }
  if (mean <= 0) return Interval{mean - half, mean + half};
  return Interval{mean * std::exp(-half / mean), mean * std::exp(half / mean)};
}

}  // namespace

absl::optional<Interval> IntervalOf(const ReportValue& value) {
  if (value.count() < kFewestForAnInterval || value.deviation() <= 0) return absl::nullopt;
  Interval interval = Unbounded(value);
  if (value.has_least()) interval.low = std::max(interval.low, value.least());
  if (value.has_most()) interval.high = std::min(interval.high, value.most());
  return interval;
}

Contrast RatioOf(const ReportValue& a, const ReportValue& b) {
  Contrast ratio;
  if (a.count() == 0 || b.count() == 0) return ratio;
  if (a.mean() <= 0 || b.mean() <= 0) {
    ratio.difference = PointsOf(a, b).difference;
    return ratio;
  }
  ratio.value = a.mean() / b.mean();
  if (std::min(a.count(), b.count()) < 2) return ratio;
  const double half = HalfInterval(a, b) * ErrorOfLogarithm(a, b);
  ratio.interval = Interval{ratio.value * std::exp(-half), ratio.value * std::exp(half)};
  if (a.has_least() && b.has_most()) {
    ratio.interval->low = std::max(ratio.interval->low, a.least() / b.most());
  }
  if (a.has_most() && b.has_least() && b.least() > 0) {
    ratio.interval->high = std::min(ratio.interval->high, a.most() / b.least());
  }
  ratio.difference = Evidence(std::log(ratio.value), half, kRounding);
  return ratio;
}

Contrast PointsOf(const ReportValue& a, const ReportValue& b) {
  Contrast points;
  points.value = a.mean() - b.mean();
  if (std::min(a.count(), b.count()) < 2) return points;
  const double half = HalfInterval(a, b) * ErrorOfDifference(a, b);
  const bool shares = a.scale() == ReportValue::SHARE;
  const auto bounded = [shares](double value) { return shares ? std::clamp(value, -1.0, 1.0) : value; };
  points.interval = Interval{bounded(points.value - half), bounded(points.value + half)};
  points.difference =
      Evidence(points.value, half, kRounding * std::max(std::abs(a.mean()), std::abs(b.mean())));
  return points;
}

double HalfOf(const Contrast& contrast) {
  return contrast.interval.has_value() ? (contrast.interval->high - contrast.interval->low) / 2 : 0;
}

Difference DifferenceOf(const ReportValue& a, const ReportValue& b) {
  const bool shares = a.scale() == ReportValue::SHARE && b.scale() == ReportValue::SHARE;
  return shares ? PointsOf(a, b).difference : RatioOf(a, b).difference;
}

int RunsToTell(const ReportValue& a, const ReportValue& b) {
  const int runs = std::min(a.count(), b.count());
  if (runs < 2 || a.mean() <= 0 || b.mean() <= 0) return 0;
  const double deviation = ErrorOfLogarithm(a, b) * std::sqrt(runs);
  const double lead = std::abs(std::log(a.mean() / b.mean()));
  for (int more = runs + 1; more <= kMostRunsToTell; ++more) {
    ReportValue value;
    value.set_count(more);
    if (HalfInterval(value, value) * deviation / std::sqrt(more) < lead) return more;
  }
  return 0;
}

std::string WithInterval(double mean, const Interval& interval, absl::string_view plus_minus) {
  const double half = (interval.high - interval.low) / 2;
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(half))), 0, 12);
  const auto text = [decimals](double value) { return GroupedText(value, decimals); };
  if (std::abs(interval.high + interval.low - 2 * mean) <= kAsymmetrical * 2 * half) {
    return absl::StrCat(text(mean), " ", plus_minus, " ", text(half));
  }
  // The end of the interval that is nearer to the mean decides the number of digits. An end that was cut to
  // the mean itself is not considered.
  const double ends[] = {interval.high - mean, mean - interval.low};
  const double nearer = std::min(ends[0] > 0 ? ends[0] : ends[1], ends[1] > 0 ? ends[1] : ends[0]);
  const int finer = std::clamp(1 - static_cast<int>(std::floor(std::log10(nearer))), decimals, 12);
  const auto fine = [finer](double value) { return GroupedText(value, finer); };
  return absl::StrCat(fine(mean), " (", fine(interval.low), " to ", fine(interval.high), ")");
}

std::string MeanText(const ReportValue& value, double scale) {
  const double mean = value.mean() * scale;
  if (const absl::optional<Interval> interval = IntervalOf(value); interval.has_value()) {
    return WithInterval(mean, {interval->low * scale, interval->high * scale});
  }
  return DigitsText(mean, 3);
}

std::string SecondsText(const ReportValue& seconds) { return MeanText(seconds) + " s"; }

std::string TimesText(const Contrast& ratio) {
  const std::string times = absl::StrFormat("%.2f times", ratio.value);
  if (!ratio.interval.has_value()) return times;
  return absl::StrFormat("%s (%.2f to %.2f)", times, ratio.interval->low, ratio.interval->high);
}

}  // namespace tethys
