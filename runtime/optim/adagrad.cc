#include "runtime/optim/optimizer_kind.h"

namespace tethys {
namespace {

UpdateRule Rule(const proto::Optimizer& config) {
  const auto epsilon = static_cast<float>(config.adagrad().epsilon());
  const bool inside = config.adagrad().epsilon_inside_root();
  return {.formula = UpdateFormula::kAdagrad,
          .constants = {.epsilon = inside ? 0 : epsilon, .epsilon_inside_root = inside ? epsilon : 0}};
}

std::vector<OptimizerSlot> Slots(const proto::Optimizer& config) {
  const auto initial = static_cast<float>(config.adagrad().initial_accumulator());
  return {{.name = "accumulator", .initial_value = initial}};
}

}  // namespace

const OptimizerKind kAdagradKind = {.kind = proto::Optimizer::kAdagrad, .rule = Rule, .slots = Slots};

}  // namespace tethys
