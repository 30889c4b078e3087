// Chooses and removes old runs, for `tethys runs prune`.
#ifndef TETHYS_DEPLOY_LAUNCHER_RUN_PRUNING_H_
#define TETHYS_DEPLOY_LAUNCHER_RUN_PRUNING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "deploy/launcher/run_list.h"
#include "runtime/base/status.h"

namespace tethys {

// Rules of pruning. A run is removed if it meets all rules that are given.
struct PruningRules {
  // Of the runs that may be removed (RunsToPrune), the newest `keep` are kept.
  absl::optional<int64_t> keep = {};
  // Only runs whose last attempt started more than this many seconds ago are removed.
  absl::optional<int64_t> older_than = {};
};

// The runs to remove, the newest first; none if `rules` has no rule. Running and damaged runs, directories
// that hold no run, and single runs of a comparison are never removed. `now`: seconds since 1970. Pure.
std::vector<ListedRun> RunsToPrune(const std::vector<ListedRun>& runs, const PruningRules& rules,
                                   int64_t now);

// Removes the directory of a run. FailedPrecondition: a launcher uses it; NotFound: it holds no run. Blocks.
absl::Status RemoveRun(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_RUN_PRUNING_H_
