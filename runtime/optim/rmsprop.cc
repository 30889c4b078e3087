#include "runtime/optim/optimizer_kind.h"

namespace tethys {
namespace {

UpdateFormula Formula(const proto::Rmsprop& rmsprop) {
  const bool momentum = rmsprop.momentum() != 0;
  if (rmsprop.centered()) {
    return momentum ? UpdateFormula::kCenteredRmspropMomentum : UpdateFormula::kCenteredRmsprop;
  }
  return momentum ? UpdateFormula::kRmspropMomentum : UpdateFormula::kRmsprop;
}

UpdateRule Rule(const proto::Optimizer& config) {
  const proto::Rmsprop& rmsprop = config.rmsprop();
  const auto epsilon = static_cast<float>(rmsprop.epsilon());
  const bool inside = rmsprop.epsilon_inside_root();
  return {.formula = Formula(rmsprop),
          .constants = {.momentum = static_cast<float>(rmsprop.momentum()),
                        .square_kept = static_cast<float>(rmsprop.decay()),
                        .square_added = static_cast<float>(1 - rmsprop.decay()),
                        .epsilon = inside ? 0 : epsilon,
                        .epsilon_inside_root = inside ? epsilon : 0}};
}

std::vector<OptimizerSlot> Slots(const proto::Optimizer& config) {
  std::vector<OptimizerSlot> slots = {{.name = "mean_square"}};
  if (config.rmsprop().centered()) slots.push_back({.name = "mean"});
  if (config.rmsprop().momentum() != 0) slots.push_back({.name = "step_momentum"});
  return slots;
}

}  // namespace

const OptimizerKind kRmspropKind = {.kind = proto::Optimizer::kRmsprop, .rule = Rule, .slots = Slots};

}  // namespace tethys
