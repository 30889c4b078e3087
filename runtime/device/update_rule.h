// What an optimizer asks of a device: which formula (update_formulas.h) with which constants, for every
// element of a variable. Plain data.
#ifndef TETHYS_RUNTIME_DEVICE_UPDATE_RULE_H_
#define TETHYS_RUNTIME_DEVICE_UPDATE_RULE_H_

#include <cstdint>

namespace tethys {

// In the order of the list in update_formulas.h.
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

// Whether the step of an element depends on norms of its whole region.
constexpr bool HasTrustRatio(UpdateFormula formula) { return formula >= UpdateFormula::kLars; }

// Each formula uses some of them.
struct UpdateConstants {
  float momentum = 0;
  // A running mean becomes kept * mean + added * value, and added is 1 - kept, rounded once: in float,
  // 1 - 0.999f would be off by 1e-5 of it.
  float mean_kept = 0;  // Of gradients: Adam's beta 1.
  float mean_added = 0;
  float square_kept = 0;  // Of squares: Adam's beta 2, RMSprop's decay.
  float square_added = 0;
  float epsilon = 0;              // Added to the root of the squares; LARS: to the norms.
  float epsilon_inside_root = 0;  // Added to the squares.
  float trust = 0;                // LARS: the factor of the trust ratio.
};

struct UpdateRule {
  UpdateFormula formula = UpdateFormula::kSgd;
  UpdateConstants constants = {};
  // Weight decay multiplies parameters by 1 - learning rate * decay, instead of adding decay * w to the
  // gradient.
  bool decoupled_decay = false;
};

// The numbers that change from update to update.
struct UpdateRates {
  float learning_rate = 0;
  float gradient_scale = 1;          // Turns sums of gradients into means.
  float first_correction = 1;        // Adam: multiply the running mean and
  float root_square_correction = 1;  // the root of the running mean of squares, which start at 0.
};

// Sums over a region, for its trust ratio: the squares of its parameters, and of what the formula measures.
struct RegionSquares {
  double parameters = 0;
  double measured = 0;
};

// What the elements of a region have in common in one update.
struct RegionFactors {
  float weight_decay = 0;
  float trust_ratio = 1;  // Used by the formulas that have one.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_UPDATE_RULE_H_
