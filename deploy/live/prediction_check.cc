#include "deploy/live/prediction_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr double kNamedShare = 0.25;
constexpr double kExplainedShare = 0.5;
constexpr double kManyOthers = 0.1;
constexpr double kFullLink = 0.9;

std::string RateText(double rate) { return CountText(std::llround(std::clamp(rate, 0.0, 1e15))); }

// The seconds of a worker's step, and of its parts.
struct Parts {
  double step = 0, compute = 0, exchange = 0;
};

// The predicted parts of a step. The time of computing is found in prediction.bound by the name of its
// resource (proto::Bound).
Parts Predicted(const proto::Expectation& expectation, int workers) {
  const proto::Prediction& prediction = expectation.prediction();
  Parts parts;
  parts.step = workers * expectation.batch_per_worker() / prediction.samples_per_second().value();
  double overhead = 0;
  for (const proto::Bound& bound : prediction.bound()) {
    if (absl::StartsWith(bound.resource(), "compute on ")) parts.compute = bound.seconds();
    if (bound.resource() == "overhead") overhead = bound.seconds();
  }
  parts.exchange = std::max(0.0, parts.step - parts.compute - overhead);
  return parts;
}

const proto::LiveTask* SlowestWorker(const proto::LiveState& state) {
  const proto::LiveTask* slowest = nullptr;
  for (const proto::LiveTask& task : state.task()) {
    if (task.health() != "slow" || task.pulse().role() != "worker") continue;
    if (slowest == nullptr || task.compute_ratio() > slowest->compute_ratio()) slowest = &task;
  }
  return slowest;
}

std::string SlowText(const proto::LiveTask& task) {
  return absl::StrFormat("worker %d on %s computes %.1f times as long as the median of all workers",
                         task.pulse().index(), task.pulse().host(), task.compute_ratio());
}

std::string LongerText(const char* what, double seconds, double predicted) {
  return absl::StrCat(what, " takes ", TimeText(seconds), " a step instead of ", TimeText(predicted));
}

std::string ComputeText(const StepFigures& figures, double seconds, double predicted) {
  std::string text = LongerText("computing", seconds, predicted);
  if (figures.others_cpu >= kManyOthers) {
    absl::StrAppendFormat(&text, ", while other programs use %.0f %% of the CPU of %s",
                          100 * figures.others_cpu, figures.others_host);
  }
  return text;
}

std::string ExchangeText(const proto::LiveState& state, double seconds, double predicted) {
  std::string text = LongerText("the exchange", seconds, predicted);
  for (const proto::LiveTask& task : state.task()) {
    if (std::max(task.in_share(), task.out_share()) < kFullLink) continue;
    absl::StrAppend(&text, ", and the link of ", task.pulse().host(), " is full");
    break;
  }
  return text;
}

// The reason why a run is slower than predicted; empty if the measurements do not show the reason.
std::string ReasonText(const proto::Expectation& expectation, const StepFigures& figures,
                       const proto::LiveState& state) {
  const bool lock_step = expectation.lock_step();
  const Parts predicted = Predicted(expectation, figures.workers);
  const double excess = figures.step - predicted.step;
  if (!(excess > 0)) return "";
  const proto::LiveTask* slow = SlowestWorker(state);
  if (!lock_step && slow != nullptr) {
    double lost = 0;  // The throughput that slow workers lose, in units of a normal worker's throughput.
    for (const proto::LiveTask& task : state.task()) {
      if (task.health() == "slow" && task.compute_ratio() > 1) lost += 1 - 1 / task.compute_ratio();
    }
    if (lost >= kExplainedShare * figures.workers * (1 - predicted.step / figures.step))
      return SlowText(*slow);
  }
  if (predicted.compute <= 0) return "";
  const double compute = lock_step ? figures.slowest_compute : figures.median_compute;
  const double exchange = lock_step ? figures.least_exchange : figures.median_exchange;
  const double longer_compute = compute - predicted.compute, longer_exchange = exchange - predicted.exchange;
  std::vector<std::string> reasons;
  double explained = 0;
  if (longer_compute >= kNamedShare * excess) {
    explained += longer_compute;
    reasons.push_back(lock_step && slow != nullptr ? SlowText(*slow)
                                                   : ComputeText(figures, compute, predicted.compute));
  }
  if (longer_exchange >= kNamedShare * excess) {
    explained += longer_exchange;
    reasons.push_back(ExchangeText(state, exchange, predicted.exchange));
  }
  return explained >= kExplainedShare * excess ? absl::StrJoin(reasons, ", and ") : "";
}

}  // namespace

absl::optional<proto::Comparison> CompareWithPrediction(const proto::Expectation& expectation,
                                                        const StepFigures& figures,
                                                        const proto::LiveState& state) {
  const proto::Estimate& predicted = expectation.prediction().samples_per_second();
  const double measured = figures.workers * expectation.batch_per_worker() / figures.step;
  if (!(predicted.value() > 0) || !(measured > 0) || !std::isfinite(measured)) return absl::nullopt;
  proto::Comparison comparison;
  *comparison.mutable_predicted() = predicted;
  comparison.set_measured(measured);
  comparison.set_within(predicted.low() <= measured && measured <= predicted.high());
  const double change = 100 * (measured / predicted.value() - 1);
  // A throughput within the interval of the prediction does not count as a difference.
  std::string text = comparison.within()
                         ? "As predicted"
                         : absl::StrFormat("%.0f %% %s than predicted", std::min(std::abs(change), 1e6),
                                           change < 0 ? "slower" : "faster");
  absl::StrAppendFormat(&text, ": %s samples/s, predicted %s (%s to %s)", RateText(measured),
                        RateText(predicted.value()), RateText(predicted.low()), RateText(predicted.high()));
  const bool slower = measured < predicted.low();
  const std::string reason = slower ? ReasonText(expectation, figures, state) : "";
  if (!reason.empty()) absl::StrAppend(&text, ", because ", reason);
  comparison.set_text(text);
  return comparison;
}

}  // namespace tethys
