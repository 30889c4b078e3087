#include "deploy/comparison.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"

namespace tethys {

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

Aggregate AggregateRuns(absl::Span<const RunRecord> runs, int variant) {
  Aggregate aggregate;
  std::vector<double> accuracy, seconds, rate, exposed, bytes, staleness, run_cost, epoch_cost;
  for (const RunRecord& run : runs) {
    if (run.variant != variant) continue;
    ++aggregate.runs;
    if (!run.status.ok()) {
      ++aggregate.failed;
      continue;
    }
    const proto::RunSummary& summary = run.summary;
    if (summary.has_test()) accuracy.push_back(summary.test().accuracy());
    seconds.push_back(summary.timing().training_seconds());
    rate.push_back(summary.timing().samples_per_second());
    exposed.push_back(summary.communication().exposed_share());
    bytes.push_back(summary.communication().bytes_out_per_step() +
                    summary.communication().bytes_in_per_step());
    staleness.push_back(summary.communication().mean_staleness());
    if (summary.has_cost()) run_cost.push_back(summary.cost().run());
    if (summary.cost().epoch() > 0) epoch_cost.push_back(summary.cost().epoch());
  }
  aggregate.accuracy = SpreadOf(accuracy);
  aggregate.seconds = SpreadOf(seconds);
  aggregate.samples_per_second = SpreadOf(rate);
  aggregate.exposed_share = SpreadOf(exposed);
  aggregate.bytes_per_step = SpreadOf(bytes);
  aggregate.staleness = SpreadOf(staleness);
  aggregate.run_cost = SpreadOf(run_cost);
  aggregate.epoch_cost = SpreadOf(epoch_cost);
  return aggregate;
}

}  // namespace tethys
