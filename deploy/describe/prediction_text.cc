#include "deploy/describe/prediction_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/describe/job_description.h"
#include "deploy/text.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr double kShownShare = 0.01;  // Resources that limit the step by a smaller share are left out.

std::string NumberText(double value) { return DigitsText(value, 3); }

std::string EstimateText(const proto::Estimate& estimate, const std::function<std::string(double)>& text) {
  if (estimate.low() == estimate.high()) return text(estimate.value());
  return absl::StrCat(text(estimate.value()), " (", text(estimate.low()), " to ", text(estimate.high()), ")");
}

// The value and the bounds of the interval have the same unit: minutes if the upper bound is at least 100 s.
std::string TimesText(const proto::Estimate& time) {
  return EstimateText(time, time.high() >= 100 ? DurationText : TimeText);
}

std::string BoundsText(const proto::Prediction& prediction) {
  std::vector<std::string> parts;
  for (const proto::Bound& bound : prediction.bound()) {
    if (bound.share() < kShownShare) continue;
    parts.push_back(absl::StrFormat("%s %.0f %%", bound.resource(), 100 * bound.share()));
  }
  return absl::StrJoin(parts, ", ");
}

std::string ValidityText(const proto::Prediction& prediction) {
  switch (prediction.validity()) {
    case proto::MEASURED:
      return absl::StrCat(
          "the calibration measured exactly this combination of strategy, processes and batch",
          prediction.remark().empty() ? "" : "; ", prediction.remark());
    case proto::INTERPOLATED:
      return "within the calibrated ranges";
    case proto::NO_MACHINE:
      return absl::StrCat("for machines that were described but not measured: ", prediction.remark());
    default:
      return absl::StrCat("beyond the calibrated ranges", prediction.remark().empty() ? "" : ": ",
                          prediction.remark());
  }
}

}  // namespace

std::string PredictionText(const proto::Prediction& prediction, const proto::Job& job,
                           const std::string& source) {
  std::string text = Wrap(absl::StrCat("Prediction (", source, ")"), "", kSummaryWidth);
  const auto add = [&](const char* what, const std::string& value) {
    absl::StrAppend(&text, WrapBeside(absl::StrCat("  ", what), value, kSummaryIndent, kSummaryWidth));
  };
  const auto time = [&](const char* what, bool given, const proto::Estimate& estimate) {
    if (given) add(what, TimesText(estimate));
  };
  time(TraitsOf(job).update == UpdateUnit::kPush ? "update" : "step", prediction.has_step(),
       prediction.step());
  if (prediction.has_samples_per_second()) {
    add("samples/s", EstimateText(prediction.samples_per_second(), NumberText));
  }
  time("epoch", prediction.has_epoch(), prediction.epoch());
  time("total", prediction.has_total(), prediction.total());
  if (prediction.has_cost()) {
    add("cost",
        absl::StrFormat("%s, in the currency of the price, %s per hour",
                        EstimateText(prediction.cost(), NumberText),
                        DigitsText(3600 * prediction.cost().value() / prediction.total().value(), 4)));
  }
  time("start-up", prediction.has_startup(), prediction.startup());
  time("first step", prediction.has_first_iteration(), prediction.first_iteration());
  if (prediction.has_staleness()) {
    std::string value =
        absl::StrCat(EstimateText(prediction.staleness(), NumberText), " updates on average at each server");
    if (prediction.staleness_bound() > 0) absl::StrAppend(&value, ", at most ", prediction.staleness_bound());
    add("staleness", value);
  }
  const std::string servers = prediction.server_bytes() > 0
                                  ? absl::StrCat(", a server at most ", BytesText(prediction.server_bytes()))
                                  : "";
  add("memory", absl::StrCat("a worker at most ", BytesText(prediction.worker_bytes()), servers,
                             ", without the memory of the program itself"));
  if (prediction.bound_size() > 0) add("bounded by", BoundsText(prediction));
  if (prediction.has_step()) add("validity", ValidityText(prediction));
  return text;
}

std::string PredictionTable(const std::vector<WorkersPrediction>& predictions, const std::string& source) {
  const bool costs = std::any_of(predictions.begin(), predictions.end(),
                                 [](const WorkersPrediction& one) { return one.prediction.has_cost(); });
  const bool machines = std::any_of(predictions.begin(), predictions.end(),
                                    [](const WorkersPrediction& one) { return one.machines > 0; });
  std::vector<Column> columns = {{{"workers"}}};
  if (machines) columns.push_back({{"machines"}});
  for (const char* name : {"step", "samples/s", "epoch", "total"}) columns.push_back({{name}});
  if (costs) columns.push_back({{"cost"}});
  std::vector<std::vector<std::string>> rows;
  // Each remark, with the numbers of workers that it is about.
  std::vector<std::pair<std::string, std::vector<int>>> remarks;
  for (const auto& [workers, prediction, of_hosts] : predictions) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {absl::StrCat(workers)};
    if (machines) row.push_back(absl::StrCat(of_hosts));
    row.push_back(TimesText(prediction.step()));
    row.push_back(EstimateText(prediction.samples_per_second(), NumberText));
    row.push_back(TimesText(prediction.epoch()));
    row.push_back(TimesText(prediction.total()));
    if (costs) row.push_back(prediction.has_cost() ? EstimateText(prediction.cost(), NumberText) : "-");
    if (prediction.remark().empty()) continue;
    const std::string remark = ValidityText(prediction);
    auto known = std::find_if(remarks.begin(), remarks.end(),
                              [&remark](const auto& entry) { return entry.first == remark; });
    if (known == remarks.end()) known = remarks.insert(known, {remark, {}});
    known->second.push_back(workers);
  }
  std::string text = absl::StrCat(Wrap(absl::StrCat("Predictions (", source, ")"), "", kSummaryWidth),
                                  Table(columns, rows), costs ? absl::StrCat(kCostNote, "\n") : "");
  for (const auto& [remark, workers] : remarks) {
    const std::string label = workers.size() == 1 ? PluralText(workers[0], "worker")
                                                  : absl::StrCat(absl::StrJoin(workers, ", "), " workers");
    absl::StrAppend(&text, Wrap(absl::StrCat(label, ": ", remark), "", kSummaryWidth));
  }
  return text;
}

}  // namespace tethys
