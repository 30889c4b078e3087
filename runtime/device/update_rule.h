// The rule by which a device updates every element of a variable: one of the optimizers' formulas
// (update_formulas.h) with its constants. Plain data.
#ifndef TETHYS_RUNTIME_DEVICE_UPDATE_RULE_H_
#define TETHYS_RUNTIME_DEVICE_UPDATE_RULE_H_

#include <cstdint>

namespace tethys {

// The formulas, in the order of UpdateFormulaList (update_formulas.h).
enum class UpdateFormula : int32_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdam,
  kRmsprop,
  kRmspropMomentum,
  kCenteredRmsprop,
  kCenteredRmspropMomentum,
  kAdagrad,
  kLars,
  kNesterovLars,
  kLamb,
};
inline constexpr int kUpdateFormulas = 12;
inline constexpr int kMostSlots = 3;

// True if the step of an element depends on norms over the whole region of the element.
constexpr bool HasTrustRatio(UpdateFormula formula) { return formula >= UpdateFormula::kLars; }

// The constants of all formulas; each formula uses some of them.
struct UpdateConstants {
  float momentum = 0;
  // A running mean becomes kept * mean + added * value. `added` is 1 - kept, computed in double and rounded
  // once: in float, 1 - 0.999f would be wrong by 1e-5 of its value.
  float mean_kept = 0;  // For running means of gradients: Adam's beta 1.
  float mean_added = 0;
  float square_kept = 0;  // For running means of squares: Adam's beta 2, RMSprop's decay.
  float square_added = 0;
  float epsilon = 0;              // Added to the root of the squares; for LARS, added to the norms.
  float epsilon_inside_root = 0;  // Added to the squares, under the root.
  float trust = 0;                // For LARS: the factor of the trust ratio.
};

struct UpdateRule {
  UpdateFormula formula = UpdateFormula::kSgd;
  UpdateConstants constants = {};
  // True: weight decay multiplies parameters by 1 - learning rate * decay. False: it adds decay * w to the
  // gradient.
  bool decoupled_decay = false;
};

// The numbers that change from update to update.
struct UpdateRates {
  float learning_rate = 0;
  float gradient_scale = 1;    // Factor that turns sums of gradients into means.
  float first_correction = 1;  // For Adam: factor that corrects the running mean for its start at 0.
  // For Adam: factor that corrects the root of the running mean of squares for the start of this mean at 0.
  float root_square_correction = 1;
  // Not 0: the update is refused, as if a gradient were not finite. Counts only if UpdateStep::check_finite
  // is true.
  int32_t refused = 0;
};

// Sums of squares over a region, for the region's trust ratio: the squares of the region's parameters, and
// the squares of the vector that the formula measures.
struct RegionSquares {
  double parameters = 0;
  double measured = 0;
};

// The factors that all elements of a region share in one update.
struct RegionFactors {
  float weight_decay = 0;
  float trust_ratio = 1;  // The factor of the step, for formulas with a trust ratio.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_UPDATE_RULE_H_
