#include "deploy/predict/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tethys {
namespace {

// A form counts only if the relative errors of its predictions for the held-out losses are at most this.
constexpr double kMostError = 0.1;
constexpr int kShapes = 600;  // The number of values of a form's non-linear parameter that are tried.

// Sets `epoch` to the time at which the curve first reaches `loss`, in epochs; the curve must reach it.
// Returns false if the curve was below `loss` already at the end of its first epoch: then `epoch` is only a
// bound.
bool FirstAt(absl::Span<const double> curve, double loss, double& epoch) {
  size_t i = 0;
  while (curve[i] > loss) ++i;
  epoch = static_cast<double>(i + 1);
  if (i == 0) return curve[0] == loss;
  epoch -= (loss - curve[i]) / (curve[i - 1] - curve[i]);
  return true;
}

// A form of a loss curve, d + c g(epoch), where g falls and has one parameter.
struct Form {
  double (*g)(double epoch, double parameter);
  double least;  // The bounds of the parameter are `least` and `most`.
  double most;
};

constexpr Form kForms[] = {
    {[](double epoch, double shift) { return 1 / (epoch + shift); }, 1e-2, 1e3},
    {[](double epoch, double power) { return std::pow(epoch, -power); }, 1e-2, 4},
};

struct Fit {
  double parameter = 0;
  double c = 0;
  double d = 0;
};

// Fits c, d and the parameter by least squares. Losses neither rise nor become negative, so c and d are at
// least 0.
Fit FitOf(const Form& form, absl::Span<const double> curve) {
  const auto n = static_cast<double>(curve.size());
  Fit best;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kShapes; ++i) {
    const double parameter = form.least * std::pow(form.most / form.least, i / (kShapes - 1.0));
    double g = 0, gg = 0, y = 0, gy = 0;
    for (size_t k = 0; k < curve.size(); ++k) {
      const double value = form.g(static_cast<double>(k + 1), parameter);
      g += value;
      gg += value * value;
      y += curve[k];
      gy += value * curve[k];
    }
    const double spread = n * gg - g * g;
    Fit fit{.parameter = parameter};
    if (spread > 0) fit.c = std::max(0.0, (n * gy - g * y) / spread);
    fit.d = (y - fit.c * g) / n;
    if (fit.d < 0) fit = {.parameter = parameter, .c = gy / gg, .d = 0};
    double squares = 0;
    for (size_t k = 0; k < curve.size(); ++k) {
      const double error = fit.d + fit.c * form.g(static_cast<double>(k + 1), parameter) - curve[k];
      squares += error * error;
    }
    if (squares >= least) continue;
    least = squares;
    best = fit;
  }
  return best;
}

double At(const Form& form, const Fit& fit, double epoch) {
  return fit.d + fit.c * form.g(epoch, fit.parameter);
}

// Fits the form without the last fifth of the curve, and returns its largest relative error in that fifth.
double ErrorInLastFifth(const Form& form, absl::Span<const double> curve) {
  const size_t held_out = (curve.size() + 4) / 5;
  const size_t known = curve.size() - held_out;
  const Fit fit = FitOf(form, curve.first(known));
  double largest = 0;
  for (size_t k = known; k < curve.size(); ++k) {
    largest = std::max(largest, std::abs(At(form, fit, static_cast<double>(k + 1)) / curve[k] - 1));
  }
  return largest;
}

}  // namespace

SampleRatio SamplesFor(absl::Span<const double> curve, absl::Span<const double> reference) {
  SampleRatio result;
  result.loss = std::max(*std::min_element(curve.begin(), curve.end()),
                         *std::min_element(reference.begin(), reference.end()));
  double needed = 1, by_reference = 1;
  // At most one of the two times is only a bound, because `loss` is the lowest loss of one of the curves.
  if (!FirstAt(curve, result.loss, needed)) result.kind = SampleRatio::Kind::kAtMost;
  if (!FirstAt(reference, result.loss, by_reference)) result.kind = SampleRatio::Kind::kAtLeast;
  result.ratio = needed / by_reference;
  return result;
}

absl::optional<LossRange> ContinuedLoss(absl::Span<const double> curve, double epochs) {
  if (curve.size() < kLeastContinued) return absl::nullopt;
  absl::optional<LossRange> range;
  for (const Form& form : kForms) {
    const double error = ErrorInLastFifth(form, curve);
    if (!(error <= kMostError)) continue;
    const double loss = At(form, FitOf(form, curve), epochs);
    if (!range.has_value()) range = LossRange{loss, loss};
    range->low = std::min(range->low, loss * (1 - error));
    range->high = std::max(range->high, loss * (1 + error));
  }
  return range;
}

}  // namespace tethys
