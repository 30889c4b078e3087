// Fits by the method of Levenberg and Marquardt. Each cost of each transport that the anchors use has a
// parameter x_j:
//
//   cost_j = offset_j + exp(x_j)
//   minimise  sum over anchors of (ln(predicted(x) / measured) / kAnchorError)^2
//           + sum over j of ((x_j - prior_j) / width_j)^2
//
// where `predicted` is LockStepTime, and prior_j is the parameter of the usual cost (UsualCost). With the
// residuals r and their derivatives J by differences, an iteration solves
//
//   (J^T J + damping diag(J^T J)) step = -J^T r
//
// and multiplies the damping by 4 until the step makes the sum smaller; then it divides the damping by 10.
// multiplies the damping by 4 until the step makes the sum smaller; then it divides the damping by 10.
//
// Invariants: the sum never grows, and a cost stays above its offset.
#include "deploy/predict/exchange_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "deploy/predict/step_needs.h"
#include "runtime/base/quantile.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr double kAnchorError = 0.02;  // Usual relative error of an anchor's time.
constexpr double kPriorWidth = 3;      // Width of the prior in natural logarithms: a factor of about 20.
constexpr double kNormWidth = 1;
constexpr int kIterations = 60;

struct Anchor {
  StepNeeds needs;
  double step = 0;
};

// One cost of a transport: how it is computed from its parameter, and the width of the parameter's prior.
struct Parameter {
  std::string transport;
  void (proto::ExchangeCost::*set)(double);
  double (proto::ExchangeCost::*get)() const;
  double offset = 0;  // Cost = offset + exp(parameter).
  double width = kPriorWidth;
};

std::vector<Parameter> ParametersOf(const std::string& transport) {
  using Cost = proto::ExchangeCost;
  std::vector<Parameter> parameters = {{transport, &Cost::set_step_overhead, &Cost::step_overhead}};
  if (transport == kLocal) {
    parameters.push_back({transport, &Cost::set_sample_overhead, &Cost::sample_overhead});
    return parameters;
  }
  parameters.push_back({transport, &Cost::set_cpu_per_byte, &Cost::cpu_per_byte});
  parameters.push_back({transport, &Cost::set_cpu_per_message, &Cost::cpu_per_message});
  if (transport == kSharedMemory) return parameters;
  parameters.push_back({transport, &Cost::set_norm, &Cost::norm, 1, kNormWidth});
  if (transport != kServers) return parameters;
  parameters.push_back({transport, &Cost::set_loop_per_byte, &Cost::loop_per_byte});
  parameters.push_back({transport, &Cost::set_fairness, &Cost::fairness, 1, kNormWidth});
  return parameters;
}

proto::ExchangeCost& MutableCost(proto::Calibration& costs, const std::string& transport) {
  for (proto::ExchangeCost& cost : *costs.mutable_exchange()) {
    if (cost.transport() == transport) return cost;
  }
  return *costs.add_exchange() = UsualCost(transport);
}

// Solves the symmetric system a x = b by elimination with pivots.
std::vector<double> Solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    std::swap(a[column], a[pivot]);
    std::swap(b[column], b[pivot]);
    for (size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (size_t k = column; k < n; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  for (size_t row = n; row-- > 0;) {
    for (size_t k = row + 1; k < n; ++k) b[row] -= a[row][k] * b[k];
    b[row] /= a[row][row];
  }
  return b;
}

double SumSquares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

using Residuals = std::function<std::vector<double>(const std::vector<double>&)>;

// Minimises the sum of squared residuals, starting at `x`.
std::vector<double> Minimise(const Residuals& residuals, std::vector<double> x) {
  constexpr double kStep = 1e-4;
  double damping = 1e-2;
  std::vector<double> at = residuals(x);
  for (int iteration = 0; iteration < kIterations && damping < 1e8; ++iteration) {
    std::vector<std::vector<double>> slope;  // The derivatives of the residuals, by parameter.
    for (size_t j = 0; j < x.size(); ++j) {
      std::vector<double> moved = x;
      moved[j] += kStep;
      slope.push_back(residuals(moved));
      for (size_t i = 0; i < at.size(); ++i) slope[j][i] = (slope[j][i] - at[i]) / kStep;
    }
    std::vector<std::vector<double>> normal(x.size(), std::vector<double>(x.size()));
    std::vector<double> right(x.size());
    for (size_t j = 0; j < x.size(); ++j) {
      for (size_t i = 0; i < at.size(); ++i) right[j] -= slope[j][i] * at[i];
      for (size_t k = 0; k < x.size(); ++k) {
        for (size_t i = 0; i < at.size(); ++i) normal[j][k] += slope[j][i] * slope[k][i];
      }
    }
    for (; damping < 1e8; damping *= 4) {
      std::vector<std::vector<double>> damped = normal;
      for (size_t j = 0; j < x.size(); ++j) damped[j][j] = damped[j][j] * (1 + damping) + 1e-12;
      const std::vector<double> step = Solve(std::move(damped), right);
      std::vector<double> next = x;
      for (size_t j = 0; j < x.size(); ++j) next[j] += std::clamp(step[j], -2.0, 2.0);
      const std::vector<double> there = residuals(next);
      if (!(SumSquares(there) < SumSquares(at))) continue;
      x = std::move(next);
      at = there;
      damping /= 10;
      break;
    }
  }
  return x;
}

void SetCosts(const std::vector<Parameter>& parameters, const std::vector<double>& x,
              proto::Calibration& costs) {
  for (size_t j = 0; j < parameters.size(); ++j) {
    proto::ExchangeCost& cost = MutableCost(costs, parameters[j].transport);
    (cost.*parameters[j].set)(parameters[j].offset + std::exp(std::clamp(x[j], -40.0, 10.0)));
  }
}

// The transports whose costs a step depends on.
std::vector<std::string> TransportsOf(const StepNeeds& needs) {
  std::vector<std::string> transports = {kLocal};  // Every run depends on kLocal, the cost of each sample.
  if (needs.transport != kLocal) transports.push_back(needs.transport);
  for (const ExchangePart& part : needs.parts) {
    for (const ExchangeNeeds& exchange : part.exchange) {
      if (std::find(transports.begin(), transports.end(), exchange.transport) == transports.end()) {
        transports.push_back(exchange.transport);
      }
    }
  }
  return transports;
}

void Fit(const std::vector<Anchor>& anchors, proto::Calibration& calibration) {
  std::vector<Parameter> parameters;
  std::map<std::string, bool> known;
  for (const Anchor& anchor : anchors) {
    for (const std::string& transport : TransportsOf(anchor.needs)) {
      if (std::exchange(known[transport], true)) continue;
      for (const Parameter& parameter : ParametersOf(transport)) parameters.push_back(parameter);
    }
  }
  std::vector<double> prior;
  for (const Parameter& parameter : parameters) {
    const proto::ExchangeCost usual = UsualCost(parameter.transport);
    prior.push_back(
        std::log(std::max(1e-3 * (parameter.offset > 0), (usual.*parameter.get)() - parameter.offset)));
  }
  // This copy contains the costs only, because copying the measurements in each evaluation would take most of
  // the time.
  proto::Calibration costs;
  const Residuals residuals = [&](const std::vector<double>& x) {
    SetCosts(parameters, x, costs);
    std::vector<double> result;
    for (const Anchor& anchor : anchors) {
      const double predicted = LockStepTime(anchor.needs, costs, /*mean=*/false).seconds;
      result.push_back(std::log(predicted / anchor.step) / kAnchorError);
    }
    for (size_t j = 0; j < x.size(); ++j) result.push_back((x[j] - prior[j]) / parameters[j].width);
    return result;
  };
  SetCosts(parameters, Minimise(residuals, prior), calibration);
}

// Sets mean_ratio of each transport: the median, over the runs of the transport, of a run's mean step time
// divided by the lower quartile of its step times.
void SetMeanRatios(const std::vector<AnchorRun>& runs, const std::vector<Anchor>& anchors,
                   proto::Calibration& calibration) {
  std::map<std::string, std::vector<double>> ratios;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].mean_step > 0) ratios[anchors[i].needs.transport].push_back(runs[i].mean_step / runs[i].step);
  }
  for (auto& [transport, of_runs] : ratios) {
    MutableCost(calibration, transport).set_mean_ratio(std::max(1.0, Median(std::move(of_runs))));
  }
}

}  // namespace

absl::Status FitExchangeCosts(const std::vector<AnchorRun>& runs, proto::Calibration& calibration) {
  if (runs.empty()) return absl::InvalidArgumentError("a calibration needs at least one run to fit costs to");
  std::vector<Anchor> anchors;
  calibration.clear_exchange();
  calibration.clear_anchor();
  for (const AnchorRun& run : runs) {
    const std::string strategy = StrategyName(run.plan.job());
    if (!(run.step > 0) || !std::isfinite(run.step)) {
      return absl::InvalidArgumentError(absl::StrCat("the run of ", strategy, " has a step time of ",
                                                     run.step, " s, but a step time must be above 0"));
    }
    if (!TraitsOf(run.plan.job()).lock_step) {
      return absl::InvalidArgumentError(absl::StrCat(
          "costs can be fitted only to jobs whose workers run in lock step, not to a job with the strategy ",
          strategy));
    }
    TETHYS_ASSIGN_OR_RETURN(const Model model, ModelOf(run.plan));
    TETHYS_ASSIGN_OR_RETURN(const JobComputers computers, JobComputers::Create(run.machines, calibration));
    TETHYS_ASSIGN_OR_RETURN(StepNeeds needs, NeedsOfStep(run.plan, model, run.machines, computers));
    anchors.push_back({std::move(needs), run.step});
  }
  Fit(anchors, calibration);
  SetMeanRatios(runs, anchors, calibration);
  double squares = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    proto::Anchor& anchor = *calibration.add_anchor();
    anchor.set_strategy(StrategyName(runs[i].plan.job()));
    anchor.set_workers(runs[i].plan.job().workers());
    anchor.set_servers(ShapeOf(runs[i].plan.job()).servers);
    anchor.set_global_batch(runs[i].plan.global_batch());
    anchor.set_step(runs[i].step);
    anchor.set_predicted(LockStepTime(anchors[i].needs, calibration, /*mean=*/false).seconds);
    anchor.set_repeats(runs[i].repeats);
    anchor.set_mean_step(runs[i].mean_step);
    if (runs[i].others_cpu.has_value()) anchor.set_others_cpu(*runs[i].others_cpu);
    squares += std::pow(std::log(anchor.predicted() / anchor.step()), 2);
  }
  calibration.set_log_error(std::sqrt(squares / static_cast<double>(runs.size())));
  return absl::OkStatus();
}

}  // namespace tethys
