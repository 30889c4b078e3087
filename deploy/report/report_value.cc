#include "deploy/report/report_value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"

namespace tethys {

using proto::ReportValue;

double StandardError(const ReportValue& value) {
  return value.count() > 1 ? value.deviation() / std::sqrt(value.count()) : -1;
}

double HalfWidth(const ReportValue& value) {
  return value.count() > 1 ? HalfInterval(value, value) * StandardError(value) : -1;
}

Ratio RatioOf(const ReportValue& numerator, const ReportValue& denominator) {
  Ratio ratio;
  if (numerator.count() == 0 || denominator.count() == 0 || denominator.mean() == 0) return ratio;
  ratio.value = numerator.mean() / denominator.mean();
  const double above = StandardError(numerator);
  const double below = StandardError(denominator);
  if (above >= 0 && below >= 0 && numerator.mean() != 0) {
    ratio.error = ratio.value * std::hypot(above / numerator.mean(), below / denominator.mean());
    ratio.half = HalfInterval(numerator, denominator) * ratio.error;
  }
  return ratio;
}

// The 0.975 quantile of Student's t distribution; beyond the table, computed by the expansion in Abramowitz
// and Stegun, 26.7.5.
double HalfInterval(const ReportValue& a, const ReportValue& b) {
  constexpr std::array<double, 5> kQuantiles = {12.706, 4.303, 3.182, 2.776, 2.571};
  const int freedom = std::max(1, std::min(a.count(), b.count()) - 1);
  if (freedom <= static_cast<int>(kQuantiles.size())) return kQuantiles[freedom - 1];
  constexpr double kNormal = 1.960;
  return kNormal + (kNormal * kNormal * kNormal + kNormal) / (4.0 * freedom) +
         (5 * std::pow(kNormal, 5) + 16 * std::pow(kNormal, 3) + 3 * kNormal) / (96.0 * freedom * freedom);
}

double HalfOfDifference(const ReportValue& a, const ReportValue& b) {
  if (std::min(a.count(), b.count()) < 2) return -1;
  return HalfInterval(a, b) * std::hypot(StandardError(a), StandardError(b));
}

bool EqualWithinNoise(const ReportValue& a, const ReportValue& b) {
  const bool a_less = a.mean() < b.mean();
  const Ratio ratio = a_less ? RatioOf(b, a) : RatioOf(a, b);
  return ratio.error >= 0 && ratio.value - 1 <= ratio.half;
}

Difference DifferenceOf(const ReportValue& a, const ReportValue& b) {
  if (std::min(a.count(), b.count()) < 2) return Difference::kUnknown;
  return EqualWithinNoise(a, b) ? Difference::kNoise : Difference::kShown;
}

std::string WithInterval(double mean, double half, absl::string_view plus_minus) {
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(half))), 0, 12);
  return absl::StrFormat("%.*f %s %.*f", decimals, mean, plus_minus, decimals, half);
}

std::string MeanText(const ReportValue& value, double scale) {
  const double mean = value.mean() * scale;
  const double half = HalfWidth(value) * scale;
  if (half <= 0) {
    return std::abs(mean) < 1000 ? absl::StrFormat("%.3g", mean) : absl::StrFormat("%.0f", mean);
  }
  return WithInterval(mean, half);
}

std::string SecondsText(const ReportValue& seconds) { return MeanText(seconds) + " s"; }

std::string TimesText(const Ratio& ratio) {
  if (ratio.half < 0) return absl::StrFormat("%.2f times", ratio.value);
  return absl::StrFormat("%.2f ± %.2f times", ratio.value, ratio.half);
}

}  // namespace tethys
