#include "deploy/experiment/strategy_shapes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/nearest_name.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr int kMostProcesses = 4096;

absl::StatusOr<std::vector<JobStrategy>> ParseStrategies(const std::string& text) {
  std::vector<JobStrategy> all;
  std::vector<std::string> known;
  for (const ShapeTraits& traits : KnownTraits()) {
    all.emplace_back(traits.family);
    known.emplace_back(traits.name);
  }
  if (text == "all") return all;
  std::vector<JobStrategy> strategies;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::string what = absl::StrCat("--strategies=", text, ": ");
    const JobStrategy strategy = ParseStrategy(name);
    if (strategy.family == StrategyFamily::kUnknown) {
      const std::string nearest = NearestName(name, known);
      return absl::InvalidArgumentError(absl::StrCat(
          what, "there is no strategy '", name, "'",
          nearest.empty() ? "" : absl::StrCat(" (did you mean ", nearest, "?)"), "; write all, or a list of ",
          absl::StrJoin(known, ", "), ", ps_stale_N with the bound N"));
    }
    if (std::find(strategies.begin(), strategies.end(), strategy) != strategies.end()) {
      return absl::InvalidArgumentError(absl::StrCat(what, name, " is given twice"));
    }
    strategies.push_back(strategy);
  }
  return strategies;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseNumbers(const std::string& flag, const std::string& text) {
  const std::string what = absl::StrCat(flag, "=", text, ": ");
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    const bool range = part.find('-') != std::string::npos;
    int first = 0, last = 0;
    const bool parsed =
        absl::SimpleAtoi(ends.first, &first) && (!range || absl::SimpleAtoi(ends.second, &last));
    if (!range) last = first;
    if (!parsed || first < 1 || last > kMostProcesses) {
      return absl::InvalidArgumentError(absl::StrCat(what, "'", part, "' is not a number from 1 to ",
                                                     kMostProcesses,
                                                     " or a range of such numbers, such as 1-8"));
    }
    if (first > last) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "the range ", part, " is reversed: write ", last, "-", first));
    }
    for (int number = first; number <= last; ++number) {
      if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
        return absl::InvalidArgumentError(absl::StrCat(what, number, " is given twice"));
      }
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::vector<std::string> ShapeOverrides(const JobShape& shape) {
  const ShapeTraits& traits = TraitsOf(shape.strategy);
  std::vector<std::string> overrides = {absl::StrCat("strategy=", KindName(traits))};
  if (!traits.exchanges) return {overrides[0], "workers=1"};
  if (shape.workers > 0) overrides.push_back(absl::StrCat("workers=", shape.workers));
  if (!traits.servers()) return overrides;
  const std::string path = absl::StrCat("strategy.", KindName(traits));
  if (shape.servers > 0) overrides.push_back(absl::StrCat(path, ".servers=", shape.servers));
  overrides.push_back(absl::StrCat(path, ".consistency=", ConsistencyName(traits)));
  if (shape.strategy.bound.has_value()) {
    overrides.push_back(absl::StrCat(path, ".", ConsistencyName(traits), ".bound=", *shape.strategy.bound));
  }
  return overrides;
}

absl::StatusOr<StrategyShapes> ShapesOf(const std::string& strategies, const std::string& workers,
                                        const std::string& servers) {
  constexpr int kOfJob = 0;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<JobStrategy> chosen, ParseStrategies(strategies));
  std::vector<int> worker_counts = {kOfJob}, server_counts = {kOfJob};
  if (!workers.empty()) {
    TETHYS_ASSIGN_OR_RETURN(worker_counts, ParseNumbers("--workers", workers));
  }
  if (!servers.empty()) {
    TETHYS_ASSIGN_OR_RETURN(server_counts, ParseNumbers("--servers", servers));
  }
  // With one worker, several strategies train alike: a mirrored job exchanges nothing, and no other worker
  // can make gradients stale. Returns the chosen strategy that trains as `strategy` does with one worker;
  // `strategy` itself if there is none.
  const auto with_one_worker = [&chosen](const JobStrategy& strategy) {
    const JobStrategy same =
        TraitsOf(strategy).servers() ? StrategyFamily::kBulkSynchronous : StrategyFamily::kLocal;
    return std::find(chosen.begin(), chosen.end(), same) != chosen.end() ? same : strategy;
  };
  StrategyShapes result;
  const bool single = std::find(worker_counts.begin(), worker_counts.end(), 1) != worker_counts.end();
  for (const JobStrategy& strategy : chosen) {
    const ShapeTraits& traits = TraitsOf(strategy);
    const std::string name = StrategyName(strategy);
    if (!traits.exchanges) {
      if (worker_counts != std::vector<int>{kOfJob} && worker_counts != std::vector<int>{1}) {
        result.left_out.push_back("local with several workers: local training has one worker");
      }
      result.shapes.push_back({name, name, ShapeOverrides({strategy, 1, 0})});
      continue;
    }
    const JobStrategy same = with_one_worker(strategy);
    if (single && same != strategy) {
      result.left_out.push_back(absl::StrCat(name, " with 1 worker: that is ", StrategyName(same),
                                             TraitsOf(same).exchanges ? "" : " training"));
    }
    for (const int worker_count : worker_counts) {
      if (worker_count == 1 && same != strategy) continue;
      const std::string with_workers = worker_count == kOfJob ? name : absl::StrCat(name, "-", worker_count);
      if (!traits.servers()) {
        result.shapes.push_back({name, with_workers, ShapeOverrides({strategy, worker_count, 0})});
        continue;
      }
      for (const int server_count : server_counts) {
        result.shapes.push_back(
            {name, server_count == kOfJob ? with_workers : absl::StrCat(with_workers, "x", server_count),
             ShapeOverrides({strategy, worker_count, server_count})});
      }
    }
  }
  return result;
}

std::vector<Scaling> ScalingOf(absl::Span<const ScalingInput> variants, int& baseline) {
  std::vector<Scaling> scaling(variants.size());
  baseline = -1;
  bool differ = false;
  for (size_t i = 0; i < variants.size(); ++i) {
    differ = differ || variants[i].workers != variants[0].workers;
    if (variants[i].samples_per_second <= 0) continue;
    if (baseline < 0) baseline = static_cast<int>(i);
    const ScalingInput& best = variants[baseline];
    const bool fewer = variants[i].workers < best.workers;
    const bool local = variants[i].workers == best.workers && TraitsOf(best.strategy).exchanges;
    if (fewer || (local && !TraitsOf(variants[i].strategy).exchanges)) baseline = static_cast<int>(i);
  }
  if (!differ) baseline = -1;
  if (baseline < 0) return scaling;
  const ScalingInput& base = variants[baseline];
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].workers <= 0 || base.workers <= 0) continue;
    scaling[i].speed_up = variants[i].samples_per_second / base.samples_per_second;
    scaling[i].efficiency =
        scaling[i].speed_up * static_cast<double>(base.workers) / static_cast<double>(variants[i].workers);
  }
  return scaling;
}

}  // namespace tethys
