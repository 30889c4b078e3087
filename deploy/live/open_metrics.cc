#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "deploy/live/live_state.h"

namespace tethys {
namespace {

constexpr double kFirstBucketSeconds = 100e-6;  // The first bucket's upper bound, as in proto::Pulse.

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  // Fifteen digits, because counters grow beyond six digits and their rates must not jump.
  return absl::StrFormat("%.15g", value);
}

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string LabelsText(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    absl::StrAppend(&text, text.empty() ? "" : ",", name, "=\"",
                    absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
  }
  return absl::StrCat("{", text, "}");
}

class MetricsWriter {
 public:
  explicit MetricsWriter(const proto::LiveState& state) : state_(state) {}

  // Begins a family of metrics. `unit` is the suffix of its name, or empty.
  void Family(const std::string& name, const char* type, const char* unit, const char* help) {
    name_ = name;
    absl::StrAppend(&text_, "# TYPE ", name, " ", type, "\n");
    if (*unit != '\0') absl::StrAppend(&text_, "# UNIT ", name, " ", unit, "\n");
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n");
  }
  void Sample(const char* suffix, double value, const Labels& more = {}) {
    Labels labels = {{"job", state_.job()}};
    labels.insert(labels.end(), more.begin(), more.end());
    absl::StrAppend(&text_, name_, suffix, LabelsText(labels), " ", Number(value), "\n");
  }
  // Adds a sample for each worker that has the value. `value` must return NaN for a worker without the value.
  template <typename Value>
  void PerWorker(const Value& value) {
    for (const proto::LiveTask& task : state_.task()) {
      const double found = task.pulse().role() == "worker" ? value(task) : NAN;
      if (!std::isnan(found)) Sample("", found, WorkerLabels(task));
    }
  }
  static Labels WorkerLabels(const proto::LiveTask& task) {
    return {{"worker", absl::StrCat(task.pulse().index())}, {"host", task.pulse().host()}};
  }
  std::string Text() const { return absl::StrCat(text_, "# EOF\n"); }

 private:
  const proto::LiveState& state_;
  std::string name_, text_;
};

void AddNetworkBytes(const proto::LiveState& state, MetricsWriter& metrics) {
  metrics.Family("tethys_network_bytes", "counter", "bytes",
                 "Bytes that workers have moved over the network, by direction.");
  for (const proto::LiveTask& task : state.task()) {
    if (task.pulse().role() != "worker") continue;
    for (const auto& [direction, bytes] : {std::pair("in", task.bytes_in()), {"out", task.bytes_out()}}) {
      Labels labels = MetricsWriter::WorkerLabels(task);
      labels.emplace_back("direction", direction);
      metrics.Sample("_total", bytes, labels);
    }
  }
}

// Adds the two ends of the 90 % interval of `estimate`.
void AddEstimate(const char* name, const char* unit, const char* help, const proto::Estimate& estimate,
                 MetricsWriter& metrics) {
  for (const auto& [end, value] : {std::pair("low", estimate.low()), {"high", estimate.high()}}) {
    metrics.Family(absl::StrCat(name, "_", end, "_", unit), "gauge", "",
                   absl::StrCat(help, ", ", end, " end of the 90 % interval.").c_str());
    metrics.Sample("", value);
  }
}

void AddLinkUse(const proto::LiveState& state, MetricsWriter& metrics) {
  metrics.Family(
      "tethys_link_use_ratio", "gauge", "ratio",
      "Rate of a worker's traffic divided by the calibrated rate of its host's link, by direction.");
  for (const proto::LiveTask& task : state.task()) {
    if (task.pulse().role() != "worker") continue;
    for (const auto& [direction, share] : {std::pair("in", task.in_share()), {"out", task.out_share()}}) {
      if (share <= 0) continue;
      Labels labels = MetricsWriter::WorkerLabels(task);
      labels.emplace_back("direction", direction);
      metrics.Sample("", share, labels);
    }
  }
}

void AddStepDurations(const proto::LiveState& state, MetricsWriter& metrics) {
  metrics.Family("tethys_step_duration_seconds", "histogram", "seconds", "Steps of all workers by duration.");
  double count = 0, bound = kFirstBucketSeconds;
  for (int i = 0; i < state.step_bucket_size(); ++i, bound *= 2) {
    count += static_cast<double>(std::max<int64_t>(state.step_bucket(i), 0));
    if (i + 1 < state.step_bucket_size()) metrics.Sample("_bucket", count, {{"le", absl::StrCat(bound)}});
  }
  metrics.Sample("_bucket", count, {{"le", "+Inf"}});
  metrics.Sample("_count", count);
  metrics.Sample("_sum", std::max(state.step_seconds_sum(), 0.0));
}

}  // namespace

std::string OpenMetricsText(const proto::LiveState& state) {
  MetricsWriter metrics(state);
  const proto::Progress& progress = state.progress();
  metrics.Family("tethys_samples", "counter", "", "Training samples used.");
  metrics.Sample("_total", std::max(0.0, static_cast<double>(progress.epoch()) *
                                                 static_cast<double>(progress.epoch_samples()) +
                                             static_cast<double>(progress.epoch_samples_done())));
  metrics.Family("tethys_steps", "counter", "", "Updates of the parameters.");
  metrics.Sample("_total", static_cast<double>(std::max<int64_t>(progress.step(), 0)));
  metrics.Family("tethys_workers_lost", "counter", "", "Lost workers without which the run went on.");
  metrics.Sample("_total", state.workers_lost());
  metrics.Family("tethys_servers_lost", "counter", "", "Lost servers that were restored from their copies.");
  metrics.Sample("_total", state.servers_lost());
  AddNetworkBytes(state, metrics);
  AddLinkUse(state, metrics);
  AddStepDurations(state, metrics);
  metrics.Family("tethys_loss", "gauge", "", "Mean training loss of the epoch so far.");
  metrics.Sample("", progress.loss());
  metrics.Family("tethys_eta_seconds", "gauge", "seconds", "Time to the end of the job.");
  metrics.Sample("", state.has_left() ? state.left().value() : progress.eta_seconds());
  if (state.has_left())
    AddEstimate("tethys_eta", "seconds", "Time to the end of the job", state.left(), metrics);
  if (state.has_comparison()) {
    metrics.Family("tethys_predicted_samples_per_second", "gauge", "",
                   "Training samples a second, as predicted before the start.");
    metrics.Sample("", state.comparison().predicted().value());
    AddEstimate("tethys_predicted", "samples_per_second", "Training samples a second, as predicted",
                state.comparison().predicted(), metrics);
    metrics.Family("tethys_measured_samples_per_second", "gauge", "",
                   "Training samples a second in the last half minute.");
    metrics.Sample("", state.comparison().measured());
  }
  metrics.Family("tethys_staleness_updates", "gauge", "updates", "Mean staleness of a worker's gradients.");
  metrics.PerWorker([](const proto::LiveTask& task) {
    return task.pulse().has_staleness() ? task.pulse().staleness() : NAN;
  });
  metrics.Family("tethys_exchange_exposed_ratio", "gauge", "ratio",
                 "Time that a worker waits for the exchange, as a share of this time and its computing time; "
                 "medians of steps.");
  metrics.PerWorker([](const proto::LiveTask& task) {
    const double exchange = task.pulse().exchange_seconds().median();
    const double both = exchange + task.pulse().compute_seconds().median();
    return both > 0 ? exchange / both : NAN;
  });
  metrics.Family("tethys_worker_up", "gauge", "",
                 "1 if the worker runs or is done, 0 if the worker starts, is silent or is lost.");
  metrics.PerWorker([](const proto::LiveTask& task) {
    return task.health() == "silent" || task.health() == "lost" || task.health() == "starting" ? 0.0 : 1.0;
  });
  metrics.Family("tethys_worker_lag_steps", "gauge", "steps",
                 "Number of steps by which a worker is behind the median of all workers.");
  metrics.PerWorker([](const proto::LiveTask& task) { return static_cast<double>(task.pulse().lag()); });
  metrics.Family("tethys_resident_memory_bytes", "gauge", "bytes", "Resident memory of a worker.");
  metrics.PerWorker([](const proto::LiveTask& task) {
    return task.pulse().has_resident_bytes() ? static_cast<double>(task.pulse().resident_bytes()) : NAN;
  });
  metrics.Family("tethys_gpu_utilization_ratio", "gauge", "ratio", "Share of time in which the GPU is busy.");
  metrics.PerWorker([](const proto::LiveTask& task) {
    return task.pulse().has_gpu_percent() ? task.pulse().gpu_percent() / 100 : NAN;
  });
  return metrics.Text();
}

}  // namespace tethys
