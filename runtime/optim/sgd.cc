#include "runtime/optim/optimizer_kind.h"

namespace tethys {
namespace {

UpdateRule Rule(const proto::Optimizer& config) {
  const proto::Sgd& sgd = config.sgd();
  UpdateRule rule{.constants = {.momentum = static_cast<float>(sgd.momentum())}};
  if (sgd.momentum() != 0) {
    rule.formula = sgd.nesterov() ? UpdateFormula::kNesterov : UpdateFormula::kMomentum;
  }
  return rule;
}

std::vector<OptimizerSlot> Slots(const proto::Optimizer& config) {
  if (config.sgd().momentum() == 0) return {};
  return {{.name = "momentum"}};
}

}  // namespace

const OptimizerKind kSgdKind = {.kind = proto::Optimizer::kSgd, .rule = Rule, .slots = Slots};

}  // namespace tethys
