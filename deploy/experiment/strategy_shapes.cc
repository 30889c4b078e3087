#include "deploy/experiment/strategy_shapes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/nearest_name.h"

namespace tethys {
namespace {

constexpr int kMostProcesses = 4096;
constexpr char kServerPath[] = "strategy.parameter_server";

const std::vector<std::string>& AllStrategies() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"local", "mirrored", "ps_sync", "ps_stale", "ps_async"};
  return names;
}

bool HasServers(const std::string& strategy) { return absl::StartsWith(strategy, "ps_"); }

// The bound N of "ps_stale_N"; -1 without it.
int StaleBound(const std::string& strategy) {
  const absl::string_view prefix = "ps_stale_";
  int bound = -1;
  if (!absl::StartsWith(strategy, prefix)) return -1;
  return absl::SimpleAtoi(strategy.substr(prefix.size()), &bound) && bound >= 0 ? bound : -1;
}

std::vector<std::string> Overrides(const std::string& strategy, int workers, int servers) {
  std::vector<std::string> overrides = {
      absl::StrCat("strategy=", HasServers(strategy) ? "parameter_server" : strategy)};
  if (strategy == "local") return {overrides[0], "workers=1"};
  if (workers > 0) overrides.push_back(absl::StrCat("workers=", workers));
  if (!HasServers(strategy)) return overrides;
  if (servers > 0) overrides.push_back(absl::StrCat(kServerPath, ".servers=", servers));
  const bool stale = absl::StartsWith(strategy, "ps_stale");
  overrides.push_back(absl::StrCat(kServerPath, ".consistency=",
                                   stale                    ? "stale_synchronous"
                                   : strategy == "ps_async" ? "asynchronous"
                                                            : "bulk_synchronous"));
  if (StaleBound(strategy) >= 0) {
    overrides.push_back(absl::StrCat(kServerPath, ".stale_synchronous.bound=", StaleBound(strategy)));
  }
  return overrides;
}

absl::StatusOr<std::vector<std::string>> ParseStrategies(const std::string& text) {
  if (text == "all") return AllStrategies();
  std::vector<std::string> names = absl::StrSplit(text, ',');
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string what = absl::StrCat("--strategies=", text, ": ");
    const std::vector<std::string>& known = AllStrategies();
    if (std::find(known.begin(), known.end(), names[i]) == known.end() && StaleBound(names[i]) < 0) {
      const std::string nearest = NearestName(names[i], known);
      return absl::InvalidArgumentError(absl::StrCat(
          what, "there is no strategy '", names[i], "'",
          nearest.empty() ? "" : absl::StrCat(" (did you mean ", nearest, "?)"), "; write all, or a list of ",
          absl::StrJoin(known, ", "), ", ps_stale_N with the bound N"));
    }
    if (std::count(names.begin(), names.begin() + static_cast<int64_t>(i), names[i]) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, names[i], " is given twice"));
    }
  }
  return names;
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
                                                     kMostProcesses, " or a range of them, such as 1-8"));
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

absl::StatusOr<StrategyShapes> ShapesOf(const std::string& strategies, const std::string& workers,
                                        const std::string& servers) {
  constexpr int kOfJob = 0;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ParseStrategies(strategies));
  std::vector<int> worker_counts = {kOfJob}, server_counts = {kOfJob};
  if (!workers.empty()) {
    TETHYS_ASSIGN_OR_RETURN(worker_counts, ParseNumbers("--workers", workers));
  }
  if (!servers.empty()) {
    TETHYS_ASSIGN_OR_RETURN(server_counts, ParseNumbers("--servers", servers));
  }
  const auto chosen = [&names](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  StrategyShapes result;
  const bool single = std::find(worker_counts.begin(), worker_counts.end(), 1) != worker_counts.end();
  for (const std::string& name : names) {
    if (name == "local") {
      if (worker_counts != std::vector<int>{kOfJob} && worker_counts != std::vector<int>{1}) {
        result.left_out.push_back("local with several workers: local training has one worker");
      }
      result.shapes.push_back({name, Overrides(name, 1, 0)});
      continue;
    }
    // A lone worker exchanges nothing in a mirrored job, and no other worker can make its gradients stale.
    const bool same_as_local = name == "mirrored" && chosen("local");
    const bool same_as_sync = name != "ps_sync" && HasServers(name) && chosen("ps_sync");
    if (single && same_as_local) result.left_out.push_back("mirrored with 1 worker: that is local training");
    if (single && same_as_sync)
      result.left_out.push_back(absl::StrCat(name, " with 1 worker: that is ps_sync"));
    if (name == "mirrored" && !servers.empty()) {
      result.left_out.push_back("mirrored with servers: mirrored training has none");
    }
    for (const int worker_count : worker_counts) {
      if (worker_count == 1 && (same_as_local || same_as_sync)) continue;
      const std::string with_workers = worker_count == kOfJob ? name : absl::StrCat(name, "-", worker_count);
      if (!HasServers(name)) {
        result.shapes.push_back({with_workers, Overrides(name, worker_count, 0)});
        continue;
      }
      for (const int server_count : server_counts) {
        result.shapes.push_back(
            {server_count == kOfJob ? with_workers : absl::StrCat(with_workers, "x", server_count),
             Overrides(name, worker_count, server_count)});
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
    const bool local = variants[i].workers == best.workers && best.strategy != "local";
    if (fewer || (local && variants[i].strategy == "local")) baseline = static_cast<int>(i);
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
