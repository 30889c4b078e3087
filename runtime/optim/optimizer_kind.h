// The table of optimizers. A kind is one file (sgd.cc, adam.cc, ...) with a row of the table in
// optimizer_kind.cc, a formula in runtime/device/update_formulas.h with its name in update_rule.h, and a
// message in job.proto with its ranges in runtime/job/number_rules.cc. Pure; any thread.
#ifndef TETHYS_RUNTIME_OPTIM_OPTIMIZER_KIND_H_
#define TETHYS_RUNTIME_OPTIM_OPTIMIZER_KIND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/device/update_rule.h"

namespace tethys {

// Values that the optimizer keeps for each parameter.
struct OptimizerSlot {
  // Name in checkpoints. Slots of two kinds of optimizers have the same name only if they have the same
  // meaning.
  std::string name;
  float initial_value = 0;
};

// Factors of one update: UpdateRates::first_correction and root_square_correction.
struct UpdateCorrections {
  double first = 1;
  double root_square = 1;
};

// A row of the table of optimizers. The functions must be given a config of this kind, in which every field
// has its value or default.
struct OptimizerKind {
  proto::Optimizer::KindCase kind = proto::Optimizer::KIND_NOT_SET;
  UpdateRule (*rule)(const proto::Optimizer& config) = nullptr;
  // Returns the slots, in the order of the formula's slots.
  std::vector<OptimizerSlot> (*slots)(const proto::Optimizer& config) = nullptr;
  // The corrections of update `number`, counted from 1. Null: the corrections are always 1.
  UpdateCorrections (*corrections)(const proto::Optimizer& config, int64_t number) = nullptr;
};

extern const OptimizerKind kSgdKind, kAdamKind, kRmspropKind, kAdagradKind, kLarsKind, kLambKind;

// Null if the config names no kind.
const OptimizerKind* FindOptimizerKind(const proto::Optimizer& config);
// True if a step depends on the norms of whole variables, as in LARS and LAMB.
bool HasTrustRatio(const proto::Optimizer& config);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_OPTIM_OPTIMIZER_KIND_H_
