// Curves of validation loss from short runs of one job that make different updates: how many samples each run
// needed for the same loss, and the loss to expect after more epochs. Pure; any thread.
//
// A curve lists the losses at the ends of epochs 1, 2, ...; each loss must be finite.
#ifndef TETHYS_DEPLOY_PREDICT_LOSS_CURVE_H_
#define TETHYS_DEPLOY_PREDICT_LOSS_CURVE_H_

#include <cstddef>

#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace tethys {

// The number of samples that one curve needed to reach the lowest loss that both curves reached, divided by
// the number that the reference curve needed. Between two epochs a curve is a straight line. If a curve was
// below this loss at the end of its first epoch, the ratio is only a bound.
struct SampleRatio {
  enum class Kind { kExact, kAtLeast, kAtMost };
  double loss = 0;
  double ratio = 1;
  Kind kind = Kind::kExact;
};
// Requires that neither curve is empty.
SampleRatio SamplesFor(absl::Span<const double> curve, absl::Span<const double> reference);

// The least number of epochs of a curve that ContinuedLoss continues.
constexpr size_t kLeastContinued = 5;

struct LossRange {
  double low = 0;
  double high = 0;
};
// Extrapolates the curve: returns the loss after `epochs` epochs. Two functions of the epoch e are fitted,
// called forms: 1 / (a e + b) + c (Peng et al., "Optimus", EuroSys 2018) and c e^-a + d (pow3 in Domhan et
// al., "Speeding up automatic hyperparameter optimization of deep neural networks by extrapolation of
// learning curves", IJCAI 2015). A form counts if, fitted to the first four fifths of the curve, it predicts
// each loss of the last fifth within 10 %. Each form that counts is then fitted to the whole curve and gives
// a loss. The returned range contains these losses, each widened on both sides by the form's largest error in
// the last fifth. nullopt: no form counts, or the curve has fewer than kLeastContinued epochs.
absl::optional<LossRange> ContinuedLoss(absl::Span<const double> curve, double epochs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_LOSS_CURVE_H_
