#include "runtime/optim/optimizer_kind.h"

namespace tethys {

const OptimizerKind* FindOptimizerKind(const proto::Optimizer& config) {
  for (const OptimizerKind* kind :
       {&kSgdKind, &kAdamKind, &kRmspropKind, &kAdagradKind, &kLarsKind, &kLambKind}) {
    if (kind->kind == config.kind_case()) return kind;
  }
  return nullptr;
}

}  // namespace tethys
