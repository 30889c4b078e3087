#include "deploy/report/run_means.h"

#include <cmath>

#include "deploy/report/others_cpu.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"

namespace tethys {

using proto::ReportValue;
using proto::ReportVariant;

namespace {

using Number = absl::optional<double>;
using Runs = std::vector<const RunRecord*>;

void SetInterval(ReportValue& mean) {
  const absl::optional<Interval> interval = IntervalOf(mean);
  if (!interval.has_value()) return;
  mean.set_low(interval->low);
  mean.set_high(interval->high);
}

// The mean of a measurement over the runs that have it, and the value of each of these runs.
template <typename Measure>
ReportValue MeanOver(const Runs& runs, Measure measure, ReportValue::Scale scale = ReportValue::POSITIVE) {
  std::vector<double> values;
  std::vector<uint64_t> seeds;
  for (const RunRecord* run : runs) {
    const Number value = measure(*run);
    if (!value.has_value()) continue;
    values.push_back(*value);
    seeds.push_back(run->seed);
  }
  ReportValue mean = MeanOf(values, scale);
  mean.mutable_value()->Add(values.begin(), values.end());
  mean.mutable_seed()->Add(seeds.begin(), seeds.end());
  return mean;
}

// Like MeanOver, for a measurement that is in the run's summary.
template <typename Measure>
ReportValue MeanOfSummaries(const Runs& runs, Measure measure,
                            ReportValue::Scale scale = ReportValue::POSITIVE) {
  return MeanOver(
      runs, [&measure](const RunRecord& run) { return measure(run.summary); }, scale);
}

// True if the step records cover nearly all of the training. The records of a resumed run cover only its last
// attempt.
bool RecordsNearlyAllSteps(const proto::RunSummary& summary) {
  const double rate = summary.timing().samples_per_second();
  if (!summary.has_phases() || summary.workers() == 0 || rate <= 0) return false;
  constexpr double kNearlyAll = 0.99;
  const double recorded_seconds = static_cast<double>(summary.samples_recorded()) / rate;
  return recorded_seconds >= kNearlyAll * summary.timing().training_seconds();
}

// The seconds of a worker's training time that a phase took, as the mean over workers.
Number WorkerSeconds(const proto::RunSummary& summary, double phase_us) {
  if (!RecordsNearlyAllSteps(summary)) return absl::nullopt;
  return phase_us / 1e6 * static_cast<double>(summary.steps_recorded()) / summary.workers();
}

// The seconds for which a worker waited to send its step records, as the mean over workers.
Number RecordStallSeconds(const proto::RunSummary& summary) {
  if (!RecordsNearlyAllSteps(summary)) return absl::nullopt;
  double seconds = 0;
  for (const proto::TaskSummary& task : summary.task()) seconds += task.record_stall_seconds();
  return seconds / summary.workers();
}

void AddWorkerTimes(const Runs& runs, ReportVariant& means) {
  using Summary = proto::RunSummary;
  *means.mutable_step_seconds() = MeanOfSummaries(
      runs, [](const Summary& summary) { return WorkerSeconds(summary, summary.phases().total_us()); });
  *means.mutable_compute_seconds() = MeanOfSummaries(runs, [](const Summary& summary) {
    return WorkerSeconds(summary, summary.phases().forward_us() + summary.phases().backward_us());
  });
  *means.mutable_exchange_seconds() = MeanOfSummaries(
      runs, [](const Summary& summary) { return WorkerSeconds(summary, summary.phases().exchange_us()); });
  *means.mutable_data_seconds() = MeanOfSummaries(
      runs, [](const Summary& summary) { return WorkerSeconds(summary, summary.phases().data_us()); });
  *means.mutable_record_stall_seconds() = MeanOfSummaries(runs, RecordStallSeconds);
}

// The ends of the interval of a mean; the mean itself if it has no interval.
Interval EndsOf(const ReportValue& value) {
  return IntervalOf(value).value_or(Interval{value.mean(), value.mean()});
}

// The mean of `measure` at the end of the epoch in which a run reached the target. The interval of this mean
// is cut at two bounds: the lower end of the interval of `measure` at the end of the first epoch, and the
// upper end of the interval of `measure` at the end of the training.
template <typename Measure>
ReportValue MeanUntil(const Runs& reached, const Target& target, Measure measure) {
  ReportValue mean = MeanOver(reached, [&](const RunRecord& run) {
    const Reached at = *FirstAtOrAbove(target->accuracy(), run.epochs);
    return measure(run, at.epochs);
  });
  if (mean.count() < kFewRuns) return mean;  // A mean over so few runs has no interval.
  mean.set_least(EndsOf(MeanOver(reached, [&](const RunRecord& run) { return measure(run, 1); })).low);
  mean.set_most(EndsOf(MeanOver(reached, [&](const RunRecord& run) {
                  return measure(run, static_cast<int>(run.epochs.size()));
                })).high);
  SetInterval(mean);
  return mean;
}

void AddTimeToTarget(const Runs& runs, const Target& target, ReportVariant& means) {
  *means.mutable_best_accuracy() = MeanOver(
      runs, [](const RunRecord& run) { return BestAccuracy(run.epochs); }, ReportValue::SHARE);
  if (!target.has_value()) return;
  Runs reached;
  for (const RunRecord* run : runs) {
    if (FirstAtOrAbove(target->accuracy(), run->epochs).has_value()) reached.push_back(run);
  }
  const auto seconds = [](const RunRecord& run, int epochs) {
    return Number(run.epochs[epochs - 1].seconds());
  };
  proto::TimeToTarget& to_target = *means.mutable_to_target();
  *to_target.mutable_seconds() = MeanUntil(reached, target, seconds);
  *to_target.mutable_epochs() =
      MeanUntil(reached, target, [](const RunRecord&, int epochs) { return Number(epochs); });
  *to_target.mutable_cost() = MeanUntil(reached, target, [&seconds](const RunRecord& run, int epochs) {
    if (!run.summary.has_cost()) return Number();
    return Number(*seconds(run, epochs) * run.summary.cost().price_per_hour() / 3600);
  });
  to_target.set_runs(means.best_accuracy().count());
  to_target.set_reached(to_target.seconds().count());
}

}  // namespace

ReportValue MeanOf(absl::Span<const double> values, ReportValue::Scale scale) {
  ReportValue result;
  result.set_scale(scale);
  if (values.empty()) return result;
  double mean = 0;
  for (const double value : values) mean += value / values.size();
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  result.set_count(static_cast<int>(values.size()));
  result.set_mean(mean);
  // Equal values have a deviation of this order, from rounding.
  constexpr double kRounding = 1e-12;
  const double deviation = values.size() > 1 ? std::sqrt(squares / (values.size() - 1)) : 0;
  if (deviation <= kRounding * std::abs(mean)) return result;
  result.set_deviation(deviation);
  SetInterval(result);
  return result;
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

ReportVariant MeansOver(absl::Span<const RunRecord> runs, int variant, const Target& target) {
  ReportVariant means;
  int all = 0;
  Runs succeeded;
  for (const RunRecord& run : runs) {
    if (run.variant != variant) continue;
    ++all;
    if (run.status.ok()) succeeded.push_back(&run);
  }
  means.set_runs(static_cast<int>(succeeded.size()));
  means.set_failed(all - means.runs());
  using Summary = proto::RunSummary;
  const auto over = [&succeeded](auto measure) { return MeanOfSummaries(succeeded, measure); };
  const auto share = [&succeeded](auto measure) {
    return MeanOfSummaries(succeeded, measure, ReportValue::SHARE);
  };
  *means.mutable_test_accuracy() = share([](const Summary& summary) {
    return summary.test().has_accuracy() ? Number(summary.test().accuracy()) : absl::nullopt;
  });
  *means.mutable_test_mean_iou() = share([](const Summary& summary) {
    return summary.test().has_mean_iou() ? Number(summary.test().mean_iou()) : absl::nullopt;
  });
  *means.mutable_seconds() =
      over([](const Summary& summary) { return Number(summary.timing().training_seconds()); });
  *means.mutable_samples_per_second() =
      over([](const Summary& summary) { return Number(summary.timing().samples_per_second()); });
  *means.mutable_exposed_share() =
      share([](const Summary& summary) { return Number(summary.communication().exposed_share()); });
  *means.mutable_bytes_per_step() = over([](const Summary& summary) {
    return Number(summary.communication().bytes_out_per_step() + summary.communication().bytes_in_per_step());
  });
  *means.mutable_staleness() =
      over([](const Summary& summary) { return Number(summary.communication().mean_staleness()); });
  *means.mutable_cost() = over([](const Summary& summary) {
    return summary.has_cost() ? Number(summary.cost().run()) : absl::nullopt;
  });
  *means.mutable_epoch_cost() = over([](const Summary& summary) {
    return summary.cost().epoch() > 0 ? Number(summary.cost().epoch()) : absl::nullopt;
  });
  *means.mutable_others_cpu() = share([](const Summary& summary) { return OthersCpuOf(summary); });
  AddWorkerTimes(succeeded, means);
  AddTimeToTarget(succeeded, target, means);
  return means;
}

}  // namespace tethys
