// Replays recorded calibrations and runs (tests/bench/prediction_corpus.py) and judges the predictions. A
// change that makes predictions worse fails this test on any machine. Costs are fitted again to the anchors
// of each calibration, which are the runs that the calibration made. Errors are measured on the other runs,
// which have other shapes or another batch. A scenario is one place (links, machines, model) and one global
// batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "deploy/calibrate/anchors.h"
#include "deploy/experiment/strategy_shapes.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/exchange_fit.h"
#include "deploy/predict/step_model.h"
#include "deploy/study/least_squares.h"
#include "runtime/base/file.h"
#include "runtime/base/quantile.h"
#include "runtime/job/job_file.h"
#include "runtime/telemetry/csv_reader.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr double kSame = 0.03;  // Runs whose rates differ by no more than this count as equally good.
constexpr double kMostError = 0.1;
constexpr double kLeastCovered = 0.85, kMostCovered = 0.95;
constexpr double kLeastRight = 0.95;
constexpr double kMostRegret = 0.02;

// True for the places that were known when the model of predictions was made. The model is judged by the
// other places, the held-out places.
bool Seen(const std::string& place) {
  return std::set<std::string>{"mlp-1gbit-9", "mlp-1gbit-4", "mlp-100mbit-7", "lenet-1gbit-7"}.contains(
      place);
}

// True for places that were recorded after the last change of the predictions and their intervals. These
// places had no influence on the width of the intervals, unlike the other held-out places.
bool RecordedLast(const std::string& place) {
  return std::set<std::string>{"lenet-1gbit-9",   "mlp-200mbit-8",  "deep-500mbit-9", "wide-1gbit-7",
                               "mlp-50mbit-4",    "wide-100mbit-9", "mlp-1gbit-8",    "mlp-500mbit-4",
                               "lenet-200mbit-9", "lenet-1gbit-4",  "mlp-500mbit-3"}
      .contains(place);
}

// True if each machine has a part of a core for itself; at other places all machines share two cores.
bool HasOwnCores(const std::string& place) { return absl::EndsWith(place, "cores"); }

// Splits the computers of a recorded calibration. It was recorded when all simulated hosts of one machine,
// which run on one kernel, counted as one computer. As in a calibration of today, each host becomes a
// computer of its own, with the same step times and with the CPU quota at the end of the place's name:
// "-0.3cores".
void SplitByHost(const std::string& place, proto::Calibration& calibration) {
  double quota = 0;
  const absl::string_view number =
      absl::StripSuffix(absl::string_view(place).substr(place.rfind('-') + 1), "cores");
  ASSERT_TRUE(absl::SimpleAtod(number, &quota));
  ASSERT_EQ(calibration.computer_size(), 1);
  proto::ComputerCalibration all = calibration.computer(0);
  all.clear_capacity();
  all.clear_capacity_ranks();
  all.set_cores(1);
  all.set_cpu_quota(quota);
  calibration.clear_computer();
  for (const std::string& host : all.host()) {
    proto::ComputerCalibration& own = *calibration.add_computer();
    own = all;
    own.clear_host();
    own.add_host(host);
    own.set_cpu_group(host);
  }
}

struct Measured {
  AnchorShape shape;
  double rate = 0;      // Samples a second: the median over the runs.
  double spread = 0;    // Half the range of the runs divided by their median.
  bool anchor = false;  // The calibration ran this shape with this batch.
  proto::Estimate predicted;
  double by_bound = 0;   // Samples a second if a step took only as long as its largest bound.
  double by_ernest = 0;  // Samples a second by Ernest's formula; 0: too few anchors.
};

struct Scenario {
  std::string place;
  int64_t batch = 0;
  std::vector<Measured> runs;
};

struct Placed {
  proto::JobPlan plan;
  JobMachines machines;
};

// The place's job in one shape; a batch of 0 means the job's own batch.
Placed Place(const std::string& folder, const AnchorShape& shape) {
  std::vector<std::string> overrides = ShapeOverrides(shape);
  if (shape.global_batch > 0) overrides.push_back(absl::StrCat("global_batch_size=", shape.global_batch));
  const proto::Job job = *LoadJob(folder + "/job.textproto", overrides);
  return {*PlanJob(job), MachinesOf(*PlanCluster(folder + "/hosts", job))};
}

std::vector<Scenario> RunsIn(const std::string& folder) {
  const std::string text = *ReadFile(folder + "/runs.csv");
  std::map<int64_t, std::map<std::string, std::pair<AnchorShape, std::vector<double>>>> rates;
  for (CsvReader csv(text); csv.Next();) {
    const AnchorShape shape{ParseStrategy(csv.Text("strategy")), static_cast<int>(csv.Integer("workers")),
                            static_cast<int>(csv.Integer("servers")), csv.Integer("global_batch")};
    auto& [known, of_shape] = rates[shape.global_batch][AnchorText(shape)];
    known = shape;
    of_shape.push_back(csv.Number("samples_per_second"));
  }
  std::vector<Scenario> scenarios;
  for (const auto& [batch, shapes] : rates) {
    Scenario scenario{.place = std::filesystem::path(folder).filename(), .batch = batch, .runs = {}};
    for (const auto& [name, runs] : shapes) {
      const auto& [shape, of_shape] = runs;
      const auto [least, most] = std::minmax_element(of_shape.begin(), of_shape.end());
      Measured run{.shape = shape, .rate = Median(of_shape), .predicted = {}};
      run.spread = (*most - *least) / (2 * run.rate);
      scenario.runs.push_back(std::move(run));
    }
    scenarios.push_back(std::move(scenario));
  }
  return scenarios;
}

// Venkataraman et al., "Ernest", NSDI 2016: a step of n workers takes a + b / n + c log n + d n seconds with
// coefficients that are not negative, fitted to the measured steps of one strategy. b is multiplied by
// `scale`: the batch divided by the batch of the measured steps.
double ErnestSeconds(const std::vector<std::pair<int, double>>& steps, int workers, double scale) {
  const auto terms = [](double n) { return std::vector<double>{1, 1 / n, std::log(n), n}; };
  std::vector<double> y, best;
  for (const auto& [n, seconds] : steps) y.push_back(seconds);
  double least = 0;
  for (int subset = 1; subset < 16; ++subset) {
    LeastSquares fit;
    for (size_t term = 0; term < 4; ++term) {
      std::vector<double> column;
      for (const auto& [n, seconds] : steps) column.push_back((subset >> term & 1) * terms(n)[term]);
      fit.AddColumn(column);
    }
    const std::vector<double> coefficients = fit.Solve(y);
    if (*std::min_element(coefficients.begin(), coefficients.end()) < 0) continue;
    if (!best.empty() && fit.Residual(y) >= least) continue;
    least = fit.Residual(y);
    best = coefficients;
  }
  double seconds = 0;
  for (size_t term = 0; term < best.size(); ++term) {
    seconds += best[term] * terms(workers)[term] * (term == 1 ? scale : 1);
  }
  return seconds;
}

double ByErnest(const proto::Calibration& calibration, const AnchorShape& shape) {
  std::vector<std::pair<int, double>> steps;
  int64_t batch = 0;
  for (const proto::Anchor& anchor : calibration.anchor()) {
    if (ParseStrategy(anchor.strategy()) != shape.strategy) continue;
    batch = std::max(batch, anchor.global_batch());
    steps.emplace_back(anchor.workers(), anchor.mean_step());
  }
  if (steps.size() < 2) return 0;
  const double scale = static_cast<double>(shape.global_batch) / static_cast<double>(batch);
  return static_cast<double>(shape.global_batch) / ErnestSeconds(steps, shape.workers, scale);
}

void Replay(const std::string& folder, std::vector<Scenario>& scenarios) {
  proto::Calibration recorded = *ReadCalibration(folder + "/calibration.json");
  const bool own_cores = HasOwnCores(folder);
  if (own_cores) SplitByHost(folder, recorded);
  std::vector<AnchorRun> anchors;
  std::set<std::string> known;
  for (const proto::Anchor& anchor : recorded.anchor()) {
    const AnchorShape shape{ParseStrategy(anchor.strategy()), anchor.workers(), anchor.servers(),
                            anchor.global_batch()};
    known.insert(absl::StrCat(AnchorText(shape), " ", shape.global_batch));
    Placed placed = Place(folder, shape);
    anchors.push_back({std::move(placed.plan), std::move(placed.machines),
                       own_cores ? anchor.mean_step() : anchor.step(), anchor.mean_step()});
  }
  proto::Calibration fitted = recorded;
  const absl::Status status = FitExchangeCosts(anchors, fitted);
  EXPECT_TRUE(status.ok()) << status;
  for (Scenario& scenario : RunsIn(folder)) {
    for (Measured& run : scenario.runs) {
      const Placed placed = Place(folder, run.shape);
      const absl::StatusOr<proto::Prediction> prediction = Predict(placed.plan, placed.machines, fitted);
      EXPECT_TRUE(prediction.ok()) << prediction.status();
      if (!prediction.ok()) continue;
      run.predicted = prediction->samples_per_second();
      run.anchor = known.contains(absl::StrCat(AnchorText(run.shape), " ", run.shape.global_batch));
      double largest = 0;
      for (const proto::Bound& bound : prediction->bound()) largest = std::max(largest, bound.seconds());
      run.by_bound = static_cast<double>(run.shape.global_batch) / largest;
      run.by_ernest = ByErnest(recorded, run.shape);
    }
    scenarios.push_back(std::move(scenario));
  }
}

// The run for which `score` is highest, among the runs with at least `least_workers` workers.
template <typename Score>
const Measured& Best(const Scenario& scenario, int least_workers, Score score) {
  const Measured* best = nullptr;
  for (const Measured& run : scenario.runs) {
    if (run.shape.workers < least_workers) continue;
    if (best == nullptr || score(run) > score(*best)) best = &run;
  }
  return *best;
}

double ByPrediction(const Measured& run) { return run.predicted.value(); }
double ByRate(const Measured& run) { return run.rate; }

// How often the chosen shapes were right, and how much slower than the best shapes they were.
struct Choices {
  int right = 0, all = 0;
  double regret = 0;  // The sum, over choices, of 1 - (rate of the choice / best rate).
  // Returns whether the choice is as good as the best run, within kSame or the noise of the two runs.
  bool Add(const Measured& chosen, const Measured& best) {
    const double lost = 1 - chosen.rate / best.rate;
    const bool good = lost <= std::max({kSame, chosen.spread, best.spread});
    regret += std::max(0.0, lost);
    right += good;
    ++all;
    return good;
  }
};

// Errors |ln(predicted / measured)| of one method of prediction.
struct Errors {
  std::vector<double> of_runs;
  void Add(double predicted, double measured) { of_runs.push_back(std::abs(std::log(predicted / measured))); }
  double Mean() const {
    double sum = 0;
    for (const double error : of_runs) sum += error;
    return of_runs.empty() ? 0 : std::expm1(sum / static_cast<double>(of_runs.size()));
  }
  double At(double level) const { return of_runs.empty() ? 0 : std::expm1(Quantile(of_runs, level)); }
};

struct Judgement {
  Errors model, bound, ernest;
  int covered = 0;
  // `any` counts the choices by prediction among all shapes, `several` the choices by prediction among the
  // shapes with at least two workers. For comparison, `mirrored` always chooses the mirrored shape with the
  // most workers.
  Choices any, several, mirrored;

  // Returns whether the choice among several workers is as good as the best.
  bool Judge(const Scenario& scenario) {
    for (const Measured& run : scenario.runs) {
      if (run.anchor) continue;
      model.Add(run.predicted.value(), run.rate);
      covered += run.predicted.low() <= run.rate && run.rate <= run.predicted.high();
      bound.Add(run.by_bound, run.rate);
      if (run.by_ernest > 0) ernest.Add(run.by_ernest, run.rate);
    }
    const auto most_mirrored = [](const Measured& run) {
      return run.shape.strategy == StrategyFamily::kMirrored ? run.shape.workers : 0;
    };
    any.Add(Best(scenario, 1, ByPrediction), Best(scenario, 1, ByRate));
    mirrored.Add(Best(scenario, 2, most_mirrored), Best(scenario, 2, ByRate));
    return several.Add(Best(scenario, 2, ByPrediction), Best(scenario, 2, ByRate));
  }

  double Covered() const { return covered / std::max(1.0, static_cast<double>(model.of_runs.size())); }

  void Print(const char* title) const {
    const auto choices = [](const char* name, const Choices& of) {
      std::printf("  %s: right in %d of %d scenarios, regret %.2f %%\n", name, of.right, of.all,
                  100 * of.regret / std::max(1, of.all));
    };
    std::printf(
        "%s: %zu runs in shapes that were not calibrated\n"
        "  error: geometric mean %.1f %%, 90 %% quantile %.1f %%, worst %.1f %%; in the 90 %% interval %.0f "
        "%%\n"
        "  error of the largest bound alone %.1f %%, of Ernest's form %.1f %%\n",
        title, model.of_runs.size(), 100 * model.Mean(), 100 * model.At(0.9), 100 * model.At(1),
        100 * Covered(), 100 * bound.Mean(), 100 * ernest.Mean());
    choices("choice among all shapes", any);
    choices("choice among several workers", several);
    choices("always mirrored, with all machines", mirrored);
  }
};

void PrintRuns(const Scenario& scenario) {
  for (const Measured& run : scenario.runs) {
    std::printf("%-14s %5ld %-32s predicted %9.0f measured %9.0f (+-%4.1f %%) error %+6.1f %%%s\n",
                scenario.place.c_str(), static_cast<long>(scenario.batch), AnchorText(run.shape).c_str(),
                run.predicted.value(), run.rate, 100 * run.spread,
                100 * (run.predicted.value() / run.rate - 1), run.anchor ? ", an anchor" : "");
  }
}

TEST(PredictionCorpusTest, PredictsRecordedRunsThatTheCalibrationDidNotUse) {
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(TETHYS_CORPUS)) folders.insert(entry.path());
  std::vector<Scenario> scenarios;
  for (const std::string& folder : folders) Replay(folder, scenarios);
  Judgement seen, held_out, last, own_cores;
  for (const Scenario& scenario : scenarios) {
    PrintRuns(scenario);
    const bool right = (Seen(scenario.place) ? seen : held_out).Judge(scenario);
    std::printf("%s: chosen %s, best %s\n\n", right ? "right" : "WRONG",
                AnchorText(Best(scenario, 2, ByPrediction).shape).c_str(),
                AnchorText(Best(scenario, 2, ByRate).shape).c_str());
    if (RecordedLast(scenario.place)) last.Judge(scenario);
    if (HasOwnCores(scenario.place)) own_cores.Judge(scenario);
  }
  seen.Print("Places that the model was made with");
  held_out.Print("Held out");
  last.Print("Of these, recorded when nothing changed any more");
  own_cores.Print("Of these, machines with cores of their own");
  // 59 choices without an error show, with 95 % confidence, that 95 % of choices are right.
  ASSERT_GE(held_out.several.all, 59);
  const double all = held_out.several.all;
  EXPECT_LE(held_out.model.Mean(), kMostError);
  EXPECT_LE(held_out.model.Mean(), held_out.bound.Mean() / 2);
  EXPECT_LE(held_out.model.Mean(), held_out.ernest.Mean() / 2);
  for (const Judgement* judgement : {&held_out, &last}) {
    EXPECT_GE(judgement->Covered(), kLeastCovered);
    EXPECT_LE(judgement->Covered(), kMostCovered);
  }
  for (const Choices* choices : {&held_out.any, &held_out.several}) {
    EXPECT_GE(choices->right, kLeastRight * all);
    EXPECT_LE(choices->regret / all, kMostRegret);
  }
  EXPECT_LE(2 * (held_out.several.all - held_out.several.right),
            held_out.mirrored.all - held_out.mirrored.right);
}

}  // namespace
}  // namespace tethys
