#include "runtime/optim/optimizer_kind.h"

namespace tethys {

const OptimizerKind* FindOptimizerKind(const proto::Optimizer& config) {
  for (const OptimizerKind* kind :
       {&kSgdKind, &kAdamKind, &kRmspropKind, &kAdagradKind, &kLarsKind, &kLambKind}) {
    if (kind->kind == config.kind_case()) return kind;
  }
  return nullptr;
}

bool HasTrustRatio(const proto::Optimizer& config) {
  const OptimizerKind* kind = FindOptimizerKind(config);
  return kind != nullptr && HasTrustRatio(kind->rule(config).formula);
}

}  // namespace tethys
