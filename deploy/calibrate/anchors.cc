#include "deploy/calibrate/anchors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/shape_words.h"
#include "runtime/base/clock.h"
#include "runtime/base/quantile.h"
#include "runtime/job/job_validation.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {
namespace {

constexpr int64_t kEpochs = 4;                          // The epochs of a brief run: enough to time barriers.
constexpr int64_t kMostKeptBytes = int64_t{256} << 20;  // The most bytes of samples that are kept in memory.
constexpr int64_t kEvaluatedSamples = 512;  // The number of samples that are evaluated after each epoch.
constexpr double kSkippedShare = 0.3;       // The share of a run's time, at its start, that is left out.
constexpr int64_t kLeastSteps = 5;

int64_t BytesOfSample(const proto::JobPlan& plan) {
  int64_t bytes = 1;
  for (const int64_t size : plan.sample_shape()) bytes *= size;
  return bytes;
}

void UseSyntheticData(const proto::JobPlan& plan, int64_t steps, proto::Data& data) {
  proto::Data synthetic;
  proto::Synthetic& source = *synthetic.mutable_synthetic();
  *source.mutable_noise()->mutable_shape() = plan.sample_shape();
  synthetic.set_classes(data.classes());
  synthetic.set_loader_threads(data.loader_threads());
  const int64_t evaluated = std::min(kEvaluatedSamples, 2 * plan.global_batch());
  int64_t samples = (steps + kEpochs - 1) / kEpochs * plan.global_batch();
  if ((samples + evaluated) * BytesOfSample(plan) <= kMostKeptBytes) {
    synthetic.set_cache(proto::Data::MEMORY);
  } else {
    samples = steps * plan.global_batch();  // No sample is used twice, so keeping samples would not help.
  }
  source.set_train_samples(samples + evaluated);
  synthetic.set_validation_samples(evaluated);
  data = std::move(synthetic);
}

}  // namespace

std::string AnchorText(const AnchorShape& shape) {
  const std::string text = ShapeText(shape);
  const bool whole = TraitsOf(shape.strategy).exchanges || shape.global_batch == 0;
  return whole ? text : absl::StrCat(text, ", batch ", shape.global_batch);
}

std::vector<AnchorShape> AnchorShapes(int slots, int64_t global_batch) {
  constexpr StrategyFamily local = StrategyFamily::kLocal;
  constexpr StrategyFamily mirrored = StrategyFamily::kMirrored;
  constexpr StrategyFamily with_servers = StrategyFamily::kBulkSynchronous;
  std::vector<AnchorShape> shapes = {{local, 1, 0}};
  const auto add = [&](const AnchorShape& shape) {
    const bool known = std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
    if (!known && shape.workers + shape.servers <= slots) shapes.push_back(shape);
  };
  const int64_t part = global_batch / std::max(2, slots);
  if (part > 0) shapes.push_back({local, 1, 0, part});
  add({mirrored, 2, 0});
  add({with_servers, 1, 1});
  add({with_servers, 2, 1});
  const auto fill = [&](int used) {
    const int servers = std::max(1, used / 4);
    add({mirrored, used, 0});
    add({with_servers, used - servers, servers});
  };
  add({with_servers, 2, 2});
  if (slots >= 4) fill(slots);
  if (slots >= 6) fill(slots / 2);
  return shapes;
}

absl::StatusOr<proto::Job> BriefJob(const proto::JobPlan& plan, int64_t steps) {
  proto::Job job = plan.job();
  const bool classes_of_bytes =
      !plan.float_inputs() && plan.label_shape().empty() && job.data().classes() > 0;
  if (classes_of_bytes) UseSyntheticData(plan, steps, *job.mutable_data());
  job.set_global_batch_size(plan.global_batch());
  job.clear_epochs();
  job.set_max_steps(steps);
  job.clear_checkpoint();
  job.clear_early_stopping();
  job.clear_initial();
  EndAtFirstLoss(job);
  TETHYS_RETURN_IF_ERROR(ResolveJob([](absl::string_view) { return "a brief run"; }, job));
  return job;
}

absl::StatusOr<BriefTimes> TimesOf(absl::string_view steps_csv, int workers, bool lock_step) {
  struct Step {
    double begin = 0, end = 0;
    int64_t number = 0;
    double samples = 0;
  };
  std::vector<Step> steps;
  double first = 0, last = 0;
  for (CsvReader csv(steps_csv); csv.Next();) {
    Step step;
    step.begin = csv.Number("begin_ns") / kSecond;
    step.end = step.begin + csv.Number("total_ns") / kSecond;
    step.number = csv.Integer("step");
    step.samples = csv.Number("samples");
    first = steps.empty() ? step.begin : std::min(first, step.begin);
    last = steps.empty() ? step.end : std::max(last, step.end);
    steps.push_back(step);
  }
  BriefTimes times;
  times.steps = static_cast<int64_t>(steps.size());
  const double from = first + kSkippedShare * (last - first);
  double samples = 0, begin = last;
  // For each step number: the sum of the workers' times, and the number of workers.
  std::map<int64_t, std::pair<double, int>> by_number;
  for (const Step& step : steps) {
    if (step.begin < from) continue;
    begin = std::min(begin, step.begin);
    samples += step.samples;
    by_number[step.number].first += step.end - step.begin;
    ++by_number[step.number].second;
  }
  if (static_cast<int64_t>(by_number.size()) < kLeastSteps || last <= begin) {
    return absl::FailedPreconditionError(absl::StrCat("a brief run made ", times.steps,
                                                      " steps, too few to measure the time of a step: give "
                                                      "a larger --seconds"));
  }
  times.samples_per_second = samples / (last - begin);
  if (!lock_step) return times;
  std::vector<double> means;
  for (const auto& [number, sum] : by_number) {
    if (sum.second == workers) means.push_back(sum.first / sum.second);
  }
  if (means.empty()) return times;
  times.mean_step = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(means.size());
  times.step = Quantile(std::move(means), 0.25);
  return times;
}

proto::Overheads OverheadsOf(const std::vector<proto::RunSummary>& runs) {
  proto::Overheads overheads;
  std::vector<double> processes, startup, plan, first, evaluate, barrier, checkpoint, stop;
  for (const proto::RunSummary& run : runs) {
    const proto::Timing& timing = run.timing();
    processes.push_back(run.workers() + run.servers());
    startup.push_back(timing.startup_seconds());
    const double step = timing.tmi_avg_seconds();
    if (step > 0 && run.workers() == 1) {
      first.push_back(std::max(0.0, timing.first_iteration_seconds() - step));
      plan.push_back(timing.plan_seconds());
    }
    if (run.validation().samples() > 0 && run.epochs() > 0) {
      evaluate.push_back(timing.validation_seconds() * run.workers() /
                         static_cast<double>(run.epochs() * run.validation().samples()));
    }
    if (run.checkpoints_written() > 0) {
      checkpoint.push_back(timing.checkpoint_seconds() / run.checkpoints_written());
    }
    if (run.workers() > 1 && run.epochs() > 0) {
      barrier.push_back(timing.barrier_seconds() / static_cast<double>(run.epochs()));
    }
    stop.push_back(std::max(0.0, timing.total_seconds() - timing.startup_seconds() -
                                     timing.training_seconds() - timing.validation_seconds() -
                                     timing.checkpoint_seconds()));
  }
  if (runs.empty()) return overheads;
  // The start-up time grows with the number of processes. A line is fitted to the start-up times of the runs;
  // the slope of the line is at least 0.
  const auto n = static_cast<double>(runs.size());
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < runs.size(); ++i) mean_x += processes[i] / n, mean_y += startup[i] / n;
  for (size_t i = 0; i < runs.size(); ++i) {
    xx += (processes[i] - mean_x) * (processes[i] - mean_x);
    xy += (processes[i] - mean_x) * (startup[i] - mean_y);
  }
  const double slope = xx > 0 ? std::max(0.0, xy / xx) : 0;
  const auto median = [](std::vector<double>& values) {
    return values.empty() ? 0 : Median(std::move(values));
  };
  overheads.set_plan(median(plan));
  overheads.set_join_per_process(slope);
  overheads.set_join(std::max(0.0, mean_y - slope * mean_x - overheads.plan()));
  overheads.set_first_cpu(median(first));
  overheads.set_evaluate_per_sample(median(evaluate));
  overheads.set_barrier(median(barrier));
  overheads.set_checkpoint(median(checkpoint));
  overheads.set_stop(median(stop));
  return overheads;
}

}  // namespace tethys
