// The checkpoints of a run: RUN_DIR/checkpoints/step-N. Only a directory with a manifest is one. Called by
// the chief, which holds the run directory's lock; blocking, thread-compatible.
//
// Beside them may lie what a crash left: step-N.tmp (being written, or being removed) and step-N.old (the
// earlier checkpoint of a step that was being saved again; it stands in for step-N while that is missing);
// step-N.damaged, which a resumed run passed over; and best, a link to the one that is best on the validation
// split.
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

// By ascending step. A root that does not exist holds none.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::string& root);

struct DamagedCheckpoint {
  std::string path;
  std::string reason;
};
struct LatestCheckpoint {
  std::string path;                        // Empty: there is none.
  std::vector<DamagedCheckpoint> damaged;  // Newer ones.
};

// The newest checkpoint that opens undamaged (all of it is read). Whether it fits the job's model is for the
// caller to see when it opens it: another model is an error to report, not a reason to take an older
// checkpoint.
absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& root);

// Removes all but `keep` >= 1 of them, that of step `best` beside these: that of step `saved` stays, and of
// the others the newest.
absl::Status PruneCheckpoints(const std::string& root, int keep, int64_t saved, int64_t best = -1);

// From now on ROOT/best, a symbolic link, leads to the checkpoint of that step, which exists.
absl::Status LinkBest(const std::string& root, int64_t step);

// Renames a damaged checkpoint, so that none of its kind is counted or found any more: to PATH.damaged, or
// PATH.damaged-2 and so on where that is taken. Its files stay for a person to look at. Returns the new path.
absl::StatusOr<std::string> SetAsideCheckpoint(const std::string& path);

// Removes what a crash left. Not while a CheckpointWriter is at work.
absl::Status RemoveStaleCheckpoints(const std::string& root);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_STORE_H_
