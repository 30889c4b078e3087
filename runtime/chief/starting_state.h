// Where a job starts: at its beginning, or at the newest good checkpoint of its run directory. Blocks on
// files.
#ifndef TETHYS_RUNTIME_CHIEF_STARTING_STATE_H_
#define TETHYS_RUNTIME_CHIEF_STARTING_STATE_H_

#include <memory>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct StartingState {
  proto::TrainingState state;
  std::unique_ptr<CheckpointReader> reader;  // Null: from the beginning.
  std::vector<std::string> notes;            // For the user.
  std::vector<std::string> damaged;          // Paths of newer checkpoints that were passed over.
};

// FailedPrecondition: the checkpoint is of another model, data size, standardisation (where the plan knows
// its own) or seed, or of samples that the job no longer divides its epochs into. A resumed job without any
// checkpoint starts anew, and a note says so. Writes nothing, so the launcher asks it too, before it changes
// the run directory.
absl::StatusOr<StartingState> FindStartingState(const proto::JobPlan& plan, const VariableSet& variables,
                                                const std::vector<std::string>& slots,
                                                const std::string& root, bool resume);

// Puts what was passed over out of the way of the run that begins: it would be counted among the checkpoints
// to keep. One line for the user each.
std::vector<std::string> SetAsideDamaged(const StartingState& start);

// Whether a job that goes on from `state` has something to do. FailedPrecondition: it is trained to its end
// or beyond. A run that stands at its end but has not `succeeded` lacks its test, checkpoint or summary, and
// goes on.
absl::Status CheckLeftToTrain(const proto::JobPlan& plan, const proto::TrainingState& state, bool succeeded);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_STARTING_STATE_H_
