#include "deploy/launcher/run_pruning.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "deploy/launcher/run_directory.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

bool IsRemovable(const ListedRun& run) {
  const bool ended = run.state == RunState::kFinished || run.state == RunState::kFailed ||
                     run.state == RunState::kUnfinished || run.state == RunState::kNotStarted;
  return ended && !absl::StrContains(run.name, '/');
}

}  // namespace

std::vector<ListedRun> RunsToPrune(const std::vector<ListedRun>& runs, const PruningRules& rules,
                                   int64_t now) {
  std::vector<ListedRun> chosen;
  if (!rules.keep.has_value() && !rules.older_than.has_value()) return chosen;
  for (const ListedRun& run : runs) {
    if (IsRemovable(run)) chosen.push_back(run);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const ListedRun& a, const ListedRun& b) { return a.started > b.started; });
  const int64_t kept = std::min<int64_t>(rules.keep.value_or(0), chosen.size());
  chosen.erase(chosen.begin(), chosen.begin() + kept);
  if (rules.older_than.has_value()) {
    const auto young = [&](const ListedRun& run) { return now - run.started <= *rules.older_than; };
    chosen.erase(std::remove_if(chosen.begin(), chosen.end(), young), chosen.end());
  }
  return chosen;
}

absl::Status RemoveRun(const std::string& path) {
  // The lock is held until all is removed, so that the run is not resumed meanwhile.
  TETHYS_ASSIGN_OR_RETURN(const RunDirectory held, RunDirectory::Open(path));
  return RemoveRecursively(held.path());
}

}  // namespace tethys
