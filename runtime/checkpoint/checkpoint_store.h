// The checkpoints of a run: RUN_DIR/checkpoints/step-N. Only a directory with a manifest is one. Called by
// the chief, which holds the run directory's lock; blocking, thread-compatible.
//
// Other entries may lie beside them. A crash leaves step-N.tmp (being written, or being removed) and
// step-N.old (the earlier checkpoint of a step that was being saved again; it counts as step-N while that is
// missing). step-N.damaged was skipped by a resumed run. best is a link to the checkpoint that is best on the
// validation split.
#ifndef TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_STORE_H_
#define TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys {

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
};

// Sorted by ascending step. A root that does not exist holds none.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::string& root);

struct DamagedCheckpoint {
  std::string path;
  std::string reason;
};
struct LatestCheckpoint {
  std::string path;                        // Empty: there is none.
  std::vector<DamagedCheckpoint> damaged;  // Newer ones.
};

// The newest checkpoint that opens undamaged (all of it is read). The caller checks whether it fits the job's
// model when it opens it: another model is an error to report, not a reason to take an older checkpoint.
absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& root);

// Keeps the checkpoint of step `saved` and the newest of the others, `keep` >= 1 in all, and also that of
// step `best`; removes the rest.
absl::Status PruneCheckpoints(const std::string& root, int keep, int64_t saved, int64_t best = -1);

// Points the symbolic link ROOT/best to the checkpoint of that step, which exists.
absl::Status LinkBest(const std::string& root, int64_t step);

// Renames a damaged checkpoint, so that it is no longer counted or found, to PATH.damaged, or PATH.damaged-2
// and so on if that is taken. Its files stay for inspection. Returns the new path.
absl::StatusOr<std::string> SetAsideCheckpoint(const std::string& path);

// Removes what a crash left behind. Must not run while a CheckpointWriter does.
absl::Status RemoveStaleCheckpoints(const std::string& root);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_STORE_H_
