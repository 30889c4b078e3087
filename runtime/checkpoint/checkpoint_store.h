// The checkpoints of a run, in RUN_DIR/checkpoints/step-N. A directory without a manifest is not a
// checkpoint. Called by the chief, which holds the run directory's lock; blocking, thread-compatible.
//
// The folder may hold other entries. A crash may leave step-N.tmp (a checkpoint that was being written or
// removed) and step-N.old (the earlier checkpoint of a step that was being saved again; it counts as step-N
// while step-N is missing). A resumed run skips step-N.damaged. `best` is a link to the checkpoint that is
// best on the validation split. initial/step-0 is a checkpoint of the parameters and statistics with which
// the job started (`initial` in job.proto); it has no slots.
#ifndef TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_STORE_H_
#define TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_STORE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/base/status.h"

namespace tethys {

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
};

// Lists the checkpoints in `root` by ascending step. The list is empty if `root` does not exist.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::string& root);

// The path at which the checkpoint of the initial values lies (initial/step-0), if the job of `root` has one.
std::string InitialCheckpoint(const std::string& root);

struct DamagedCheckpoint {
  std::string path;
  std::string reason;
};
struct LatestCheckpoint {
  std::string path;                        // Empty: all checkpoints are damaged, or there is none.
  std::vector<DamagedCheckpoint> damaged;  // Damaged checkpoints; all are newer than `path`.
};

// Finds the newest undamaged checkpoint, by reading it completely. Does not check that the checkpoint fits
// the job's model: the caller checks this when it opens the checkpoint, because another model is an error to
// report and no reason to take an older checkpoint. FailedPrecondition: a later version wrote the newest
// checkpoint.
absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& root);

// Keeps `keep` checkpoints (1 or more): the checkpoint of step `saved` and the newest of the other
// checkpoints. Keeps the checkpoints of the steps `spared` in addition. Removes all other checkpoints.
absl::Status PruneCheckpoints(const std::string& root, int keep, int64_t saved,
                              const std::set<int64_t>& spared = {});

// Points the symbolic link ROOT/best to the checkpoint of `step`, which must exist; nullopt: removes the
// link.
absl::Status LinkBest(const std::string& root, absl::optional<int64_t> step);

// Renames a damaged checkpoint to PATH.damaged, so that it is no longer listed; if that name is taken, to
// PATH.damaged-2 and so on. Its files stay for inspection. Returns the new path.
absl::StatusOr<std::string> SetAsideCheckpoint(const std::string& path);

// Removes every step-N.tmp and step-N.old that a crash left; if step-N is missing, renames step-N.old to
// step-N instead. Must not run while a CheckpointWriter exists.
absl::Status RemoveStaleCheckpoints(const std::string& root);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_STORE_H_
