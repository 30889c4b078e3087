#include "runtime/optim/optimizer_kind.h"

namespace tethys {
namespace {

UpdateRule Rule(const proto::Optimizer& config) {
  const proto::Lars& lars = config.lars();
  return {.formula = lars.nesterov() ? UpdateFormula::kNesterovLars : UpdateFormula::kLars,
          .constants = {.momentum = static_cast<float>(lars.momentum()),
                        .epsilon = static_cast<float>(lars.epsilon()),
                        .trust = static_cast<float>(lars.trust())}};
}

// The name differs from SGD's slot "momentum", which adds up gradients without the trust ratio.
std::vector<OptimizerSlot> Slots(const proto::Optimizer&) { return {{.name = "scaled_momentum"}}; }

}  // namespace

const OptimizerKind kLarsKind = {.kind = proto::Optimizer::kLars, .rule = Rule, .slots = Slots};

}  // namespace tethys
