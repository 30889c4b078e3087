#include <cmath>

#include "runtime/optim/optimizer_kind.h"

namespace tethys {
namespace {

UpdateRule Rule(const proto::Optimizer& config) {
  const proto::Adam& adam = config.adam();
  return {.formula = UpdateFormula::kAdam,
          .constants = {.mean_kept = static_cast<float>(adam.beta_1()),
                        .mean_added = static_cast<float>(1 - adam.beta_1()),
                        .square_kept = static_cast<float>(adam.beta_2()),
                        .square_added = static_cast<float>(1 - adam.beta_2()),
                        .epsilon = static_cast<float>(adam.epsilon())}};
}

std::vector<OptimizerSlot> Slots(const proto::Optimizer&) {
  return {{.name = "first_moment"}, {.name = "second_moment"}};
}

// With epsilon_hat, epsilon is added to the uncorrected root of the squares, and the correction of the root
// is a part of the factor `first`.
UpdateCorrections Corrections(const proto::Optimizer& config, int64_t number) {
  const auto updates = static_cast<double>(number);
  const double mean = 1 - std::pow(config.adam().beta_1(), updates);
  const double root_square = std::sqrt(1 - std::pow(config.adam().beta_2(), updates));
  if (config.adam().epsilon_hat()) return {.first = root_square / mean};
  return {.first = 1 / mean, .root_square = 1 / root_square};
}

}  // namespace

const OptimizerKind kAdamKind = {
    .kind = proto::Optimizer::kAdam, .rule = Rule, .slots = Slots, .corrections = Corrections};

}  // namespace tethys
