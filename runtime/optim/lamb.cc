#include <cmath>

#include "runtime/optim/optimizer_kind.h"

namespace tethys {
namespace {

UpdateRule Rule(const proto::Optimizer& config) {
  const proto::Lamb& lamb = config.lamb();
  return {.formula = UpdateFormula::kLamb,
          .constants = {.mean_kept = static_cast<float>(lamb.beta_1()),
                        .mean_added = static_cast<float>(1 - lamb.beta_1()),
                        .square_kept = static_cast<float>(lamb.beta_2()),
                        .square_added = static_cast<float>(1 - lamb.beta_2()),
                        .epsilon = static_cast<float>(lamb.epsilon())}};
}

// The slots of Adam, with the same meaning.
std::vector<OptimizerSlot> Slots(const proto::Optimizer&) {
  return {{.name = "first_moment"}, {.name = "second_moment"}};
}

UpdateCorrections Corrections(const proto::Optimizer& config, int64_t number) {
  const auto updates = static_cast<double>(number);
  return {.first = 1 / (1 - std::pow(config.lamb().beta_1(), updates)),
          .root_square = 1 / std::sqrt(1 - std::pow(config.lamb().beta_2(), updates))};
}

}  // namespace

const OptimizerKind kLambKind = {
    .kind = proto::Optimizer::kLamb, .rule = Rule, .slots = Slots, .corrections = Corrections};

}  // namespace tethys
