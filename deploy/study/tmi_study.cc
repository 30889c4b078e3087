#include "deploy/study/tmi_study.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "deploy/report/run_means.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {
namespace {

constexpr char kMedian[] = "median 2-101";
constexpr size_t kLeastIterations = 20;
constexpr int64_t kLastIteration = 101;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

int Sign(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

}  // namespace

absl::optional<double> MedianOfFirstIterations(absl::string_view steps_csv, bool together) {
  std::map<int64_t, int64_t> made;    // Iterations counted so far, by rank.
  std::map<int64_t, double> slowest;  // The slowest worker's time, by iteration.
  std::vector<double> all;
  int64_t first_epoch = -1;
  for (CsvReader csv(steps_csv); csv.Next();) {
    if (first_epoch < 0) first_epoch = csv.Integer("epoch");
    if (csv.Integer("epoch") != first_epoch) continue;
    const int64_t iteration = ++made[csv.Integer("rank")];
    if (iteration < 2 || iteration > kLastIteration) continue;
    const double seconds = csv.Number("total_ns") / 1e9;
    slowest[iteration] = std::max(slowest[iteration], seconds);
    all.push_back(seconds);
  }
  if (together) {
    all.clear();
    for (const auto& [iteration, seconds] : slowest) all.push_back(seconds);
  }
  if (all.size() < kLeastIterations) return absl::nullopt;
  return Median(std::move(all));
}

absl::optional<TmiRun> TmiRunOf(int cell, const proto::RunSummary& summary, absl::string_view steps_csv) {
  const proto::Timing& timing = summary.timing();
  if (!timing.has_tmi_avg_seconds() || timing.tmi_avg_seconds() <= 0) return absl::nullopt;
  TmiRun run{.cell = cell,
             .tmi_avg = timing.tmi_avg_seconds(),
             .beta = timing.beta(),
             .first_iteration = timing.first_iteration_seconds(),
             .total_seconds = timing.total_seconds(),
             .error = {}};
  for (const proto::TmiEstimate& estimate : timing.tmi_estimate()) {
    run.error[estimate.iterations()] = estimate.error();
  }
  const bool together = TraitsOf(ParseStrategy(summary.strategy())).lock_step;
  if (const auto median = MedianOfFirstIterations(steps_csv, together)) {
    run.error[kMedian] = std::abs(*median - run.tmi_avg) / run.tmi_avg;
  }
  return run;
}

std::vector<proto::TmiRow> TmiRows(absl::Span<const TmiRun> runs) {
  std::map<int, std::vector<const TmiRun*>> cells;
  for (const TmiRun& run : runs) cells[run.cell].push_back(&run);
  std::vector<proto::TmiRow> rows;
  for (const auto& [cell, of] : cells) {
    const auto mean = [&of = of](double TmiRun::*value) {
      double sum = 0;
      for (const TmiRun* run : of) sum += run->*value;
      return sum / static_cast<double>(of.size());
    };
    proto::TmiRow& row = rows.emplace_back();
    row.set_cell(cell);
    row.set_runs(static_cast<int>(of.size()));
    row.set_beta(mean(&TmiRun::beta));
    row.set_tmi_avg(mean(&TmiRun::tmi_avg));
    row.set_first_iteration(mean(&TmiRun::first_iteration));
    row.set_total_seconds(mean(&TmiRun::total_seconds));
    for (const char* name : {"2", "2-6", "2-11", kMedian}) {
      std::vector<double> errors;
      for (const TmiRun* run : of) {
        const auto found = run->error.find(name);
        if (found != run->error.end()) errors.push_back(found->second);
      }
      if (errors.empty()) continue;
      const proto::ReportValue value = MeanOf(errors);
      proto::TmiError& error = *row.add_error();
      error.set_iterations(name);
      error.set_mean(value.mean());
      error.set_deviation(value.deviation());
      error.set_runs(value.count());
    }
  }
  return rows;
}

proto::TmiOrder OrderOf(const std::string& group, absl::Span<const proto::TmiRow> rows) {
  proto::TmiOrder order;
  order.set_group(group);
  std::vector<double> tmi, total;
  for (const proto::TmiRow& row : rows) {
    order.add_cell(row.cell());
    tmi.push_back(row.tmi_avg());
    total.push_back(row.total_seconds());
  }
  if (rows.empty()) return order;
  const auto least_tmi = std::min_element(tmi.begin(), tmi.end());
  const auto least_total = std::min_element(total.begin(), total.end());
  for (size_t i = 0; i < tmi.size(); ++i) {
    order.add_tmi_share(*least_tmi > 0 ? tmi[i] / *least_tmi : 0);
    order.add_total_share(*least_total > 0 ? total[i] / *least_total : 0);
  }
  order.set_tau(KendallTau(tmi, total));
  order.set_same_best(least_tmi - tmi.begin() == least_total - total.begin());
  return order;
}

double KendallTau(absl::Span<const double> a, absl::Span<const double> b) {
  double sum = 0, a_differs = 0, b_differs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = i + 1; j < a.size(); ++j) {
      const int in_a = Sign(a[i] - a[j]), in_b = Sign(b[i] - b[j]);
      sum += in_a * in_b;
      a_differs += in_a != 0;
      b_differs += in_b != 0;
    }
  }
  return a_differs > 0 && b_differs > 0 ? sum / std::sqrt(a_differs * b_differs) : 0;
}

}  // namespace tethys
