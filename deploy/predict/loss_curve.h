// Curves of validation loss, from short runs of one job whose updates differ: how many samples each needed
// for the same loss, and what the loss would be later. Pure; any thread.
//
// A curve holds the loss at the ends of epochs 1, 2, ..., each finite.
#ifndef TETHYS_DEPLOY_PREDICT_LOSS_CURVE_H_
#define TETHYS_DEPLOY_PREDICT_LOSS_CURVE_H_

#include <cstddef>

#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace tethys {

// The samples that one curve needed, as a multiple of those of another, for the lowest loss that both
// reached. Between two epochs a curve is a straight line. A curve that was below that loss at the end of its
// first epoch already tells no more than a bound.
struct SampleRatio {
  enum class Kind { kExact, kAtLeast, kAtMost };
  double loss = 0;
  double ratio = 1;
  Kind kind = Kind::kExact;
};
// Neither curve is empty.
SampleRatio SamplesFor(absl::Span<const double> curve, absl::Span<const double> reference);

// Fewer epochs do not tell whether a curve may be continued.
constexpr size_t kLeastContinued = 5;

struct LossRange {
  double low = 0;
  double high = 0;
};
// The loss after `epochs` epochs, continued by two forms, with e the epoch: 1 / (a e + b) + c (Peng et al.,
// "Optimus", EuroSys 2018) and c e^-a + d (pow3 in Domhan et al., "Speeding up automatic hyperparameter
// optimization of deep neural networks by extrapolation of learning curves", IJCAI 2015). A form counts if,
// fitted to the first four fifths of the curve, it predicts each loss of the last fifth within 10 %. The
// range spans the forms that count, then fitted to the whole curve, each with its largest error in the last
// fifth on either side. nullopt: none counts, or there are fewer than kLeastContinued epochs.
absl::optional<LossRange> ContinuedLoss(absl::Span<const double> curve, double epochs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_LOSS_CURVE_H_
