#include "deploy/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_split.h"
#include "deploy/report/time_to_accuracy.h"

namespace tethys {

const char kNotVaried[] = "-";

absl::StatusOr<Variation> ParseVariation(const std::string& text) {
  const std::string what = absl::StrCat("--vary=", text, ": ");
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(
        what + "must be FIELD=VALUE,VALUE,..., for example --vary=batch_size_per_worker=64,128");
  }
  Variation variation{text.substr(0, equals), absl::StrSplit(text.substr(equals + 1), ',')};
  for (size_t i = 0; i < variation.values.size(); ++i) {
    const std::string& value = variation.values[i];
    if (value.empty()) return absl::InvalidArgumentError(what + "one of the values is empty");
    if (std::count(variation.values.begin(), variation.values.begin() + i, value) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, "the value ", value, " is given twice"));
    }
  }
  return variation;
}

std::vector<Variant> AllVariants(int jobs, absl::Span<const Variation> variations) {
  std::vector<Variant> variants;
  for (int job = 0; job < jobs; ++job) variants.push_back({job, {}});
  for (const Variation& variation : variations) {
    std::vector<Variant> longer;
    for (const Variant& variant : variants) {
      for (const std::string& value : variation.values) {
        longer.push_back(variant);
        longer.back().values.push_back(value);
      }
    }
    variants = std::move(longer);
  }
  return variants;
}

std::vector<std::string> VariantOverrides(const Variant& variant, absl::Span<const Variation> variations) {
  std::vector<std::string> overrides;
  for (size_t i = 0; i < variations.size(); ++i) {
    overrides.push_back(absl::StrCat(variations[i].field, "=", variant.values[i]));
  }
  return overrides;
}

Spread SpreadOf(absl::Span<const double> values) {
  Spread spread{static_cast<int>(values.size())};
  if (values.empty()) return spread;
  for (const double value : values) spread.mean += value / values.size();
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (values.size() - 1));
  return spread;
}

namespace {

using Number = absl::optional<double>;
using Runs = std::vector<const RunRecord*>;

// The spread of a measurement over the runs that have it.
template <typename Measure>
Spread SpreadOver(const Runs& runs, Measure measure) {
  std::vector<double> values;
  for (const RunRecord* run : runs) {
    if (const Number value = measure(*run)) values.push_back(*value);
  }
  return SpreadOf(values);
}

// The same for a measurement in the summary.
template <typename Measure>
Spread SpreadOfSummaries(const Runs& runs, Measure measure) {
  return SpreadOver(runs, [&measure](const RunRecord& run) { return measure(run.summary); });
}

// Steps are recorded by attempt, so a resumed run has only those of its last one.
bool RecordsNearlyAllSteps(const proto::RunSummary& summary) {
  const double rate = summary.timing().samples_per_second();
  if (!summary.has_phases() || summary.workers() == 0 || rate <= 0) return false;
  constexpr double kNearlyAll = 0.99;
  const double recorded_seconds = static_cast<double>(summary.samples_recorded()) / rate;
  return recorded_seconds >= kNearlyAll * summary.timing().training_seconds();
}

// A phase's part of a worker's training time, in seconds.
Number WorkerSeconds(const proto::RunSummary& summary, double phase_us) {
  if (!RecordsNearlyAllSteps(summary)) return absl::nullopt;
  return phase_us / 1e6 * static_cast<double>(summary.steps_recorded()) / summary.workers();
}

// The mean over workers.
Number RecordStallSeconds(const proto::RunSummary& summary) {
  if (!RecordsNearlyAllSteps(summary)) return absl::nullopt;
  double seconds = 0;
  for (const proto::TaskSummary& task : summary.task()) seconds += task.record_stall_seconds();
  return seconds / summary.workers();
}

void AddWorkerTimes(const Runs& runs, Aggregate& aggregate) {
  using Summary = proto::RunSummary;
  aggregate.step_seconds = SpreadOfSummaries(
      runs, [](const Summary& summary) { return WorkerSeconds(summary, summary.phases().total_us()); });
  aggregate.compute_seconds = SpreadOfSummaries(runs, [](const Summary& summary) {
    return WorkerSeconds(summary, summary.phases().forward_us() + summary.phases().backward_us());
  });
  aggregate.exchange_seconds = SpreadOfSummaries(
      runs, [](const Summary& summary) { return WorkerSeconds(summary, summary.phases().exchange_us()); });
  aggregate.data_seconds = SpreadOfSummaries(
      runs, [](const Summary& summary) { return WorkerSeconds(summary, summary.phases().data_us()); });
  aggregate.record_stall_seconds = SpreadOfSummaries(runs, RecordStallSeconds);
}

void AddTimeToTarget(const Runs& runs, const Target& target, Aggregate& aggregate) {
  aggregate.best_accuracy = SpreadOver(runs, [](const RunRecord& run) { return BestAccuracy(run.epochs); });
  if (!target.has_value()) return;
  std::vector<double> seconds, epochs, cost;
  for (const RunRecord* run : runs) {
    const absl::optional<Reached> reached = FirstAtOrAbove(target->accuracy(), run->epochs);
    if (!reached.has_value()) continue;
    seconds.push_back(reached->seconds);
    epochs.push_back(reached->epochs);
    if (!run->summary.has_cost()) continue;
    cost.push_back(reached->seconds * run->summary.cost().price_per_hour() / 3600);
  }
  aggregate.target_seconds = SpreadOf(seconds);
  aggregate.target_epochs = SpreadOf(epochs);
  aggregate.target_cost = SpreadOf(cost);
}

}  // namespace

absl::optional<double> SecondsLeft(absl::Span<const RunTime> made, absl::Span<const int> to_come) {
  if (made.empty()) return absl::nullopt;
  double left = 0;
  for (const int variant : to_come) {
    std::vector<double> all, own;
    for (const RunTime& run : made) {
      all.push_back(run.seconds);
      if (run.variant == variant) own.push_back(run.seconds);
    }
    left += SpreadOf(own.empty() ? all : own).mean;
  }
  return left;
}

Target TargetOf(absl::Span<const RunRecord> runs, absl::optional<double> given) {
  std::vector<double> best;
  for (const RunRecord& run : runs) {
    if (!run.status.ok()) continue;
    if (const absl::optional<double> accuracy = BestAccuracy(run.epochs)) best.push_back(*accuracy);
  }
  if (best.empty()) return absl::nullopt;
  const Number accuracy = given.has_value() ? given : CommonTarget(best);
  if (!accuracy.has_value()) return absl::nullopt;
  proto::AccuracyTarget target;
  target.set_accuracy(*accuracy);
  target.set_given(given.has_value());
  target.set_runs(static_cast<int>(best.size()));
  return target;
}

std::string ExchangeOf(const proto::RunSummary& summary) {
  const std::string& exchange = summary.exchange();
  return exchange.substr(0, std::min(exchange.find(" ("), exchange.find(':')));
}

std::string DifferentExchanges(absl::Span<const std::string> exchanges) {
  std::map<std::string, int> counts;
  for (const std::string& exchange : exchanges) ++counts[exchange];
  if (counts.size() < 2) return "";
  std::string text;
  for (const auto& [exchange, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " by ", exchange);
  }
  return text;
}

Aggregate AggregateRuns(absl::Span<const RunRecord> runs, int variant, const Target& target) {
  Aggregate aggregate;
  Runs succeeded;
  for (const RunRecord& run : runs) {
    if (run.variant != variant) continue;
    ++aggregate.runs;
    if (run.status.ok()) succeeded.push_back(&run);
  }
  aggregate.failed = aggregate.runs - static_cast<int>(succeeded.size());
  const auto over = [&succeeded](auto measure) { return SpreadOfSummaries(succeeded, measure); };
  using Summary = proto::RunSummary;
  aggregate.accuracy = over([](const Summary& summary) {
    return summary.has_test() ? Number(summary.test().accuracy()) : absl::nullopt;
  });
  aggregate.seconds =
      over([](const Summary& summary) { return Number(summary.timing().training_seconds()); });
  aggregate.samples_per_second =
      over([](const Summary& summary) { return Number(summary.timing().samples_per_second()); });
  aggregate.exposed_share =
      over([](const Summary& summary) { return Number(summary.communication().exposed_share()); });
  aggregate.bytes_per_step = over([](const Summary& summary) {
    return Number(summary.communication().bytes_out_per_step() + summary.communication().bytes_in_per_step());
  });
  aggregate.staleness =
      over([](const Summary& summary) { return Number(summary.communication().mean_staleness()); });
  aggregate.run_cost = over([](const Summary& summary) {
    return summary.has_cost() ? Number(summary.cost().run()) : absl::nullopt;
  });
  aggregate.epoch_cost = over([](const Summary& summary) {
    return summary.cost().epoch() > 0 ? Number(summary.cost().epoch()) : absl::nullopt;
  });
  aggregate.others_cpu = over([](const Summary& summary) {
    return summary.has_others_cpu() ? Number(summary.others_cpu()) : absl::nullopt;
  });
  AddWorkerTimes(succeeded, aggregate);
  AddTimeToTarget(succeeded, target, aggregate);
  return aggregate;
}

}  // namespace tethys
