// Finds the state from which a job starts: the newest good checkpoint of its run directory, or the job's
// beginning, with random values or the values that the job's field `initial` names. Blocks on files.
#ifndef TETHYS_RUNTIME_CHIEF_STARTING_STATE_H_
#define TETHYS_RUNTIME_CHIEF_STARTING_STATE_H_

#include <memory>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/chief_log.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct StartingState {
  proto::TrainingState state;
  std::unique_ptr<CheckpointReader> reader;  // Null: the job starts at its beginning, with random values.
  bool initial = false;                      // True: `reader` has only initial values; slots start anew.
  MovingStatistics statistics;               // The statistics of the checkpoint, or initial values.
  std::vector<std::string> notes;            // Messages for the user.
  std::vector<std::string> damaged;          // Paths of newer, damaged checkpoints that were skipped.
};

// Finds the starting state. FailedPrecondition: the checkpoint has another model, data size, standardisation
// (if the plan has one) or seed than the job. The error is also returned if the position of the checkpoint
// lies beyond the samples that the job uses per epoch, or lies inside an epoch whose samples now have another
// order. A resumed job without any checkpoint starts at its beginning, and a note says so. NotFound: the job
// has initial values, but `root` lacks their checkpoint. Writes nothing, so the launcher can call this
// function before it changes the run directory.
absl::StatusOr<StartingState> FindStartingState(const proto::JobPlan& plan, const VariableSet& variables,
                                                const std::vector<std::string>& slots,
                                                const std::string& root, bool resume);

// Describes the starting state of an attempt for the chief's log, and finds it again from that description.
// The description leaves out the lengths of files. DataLoss: the description is of another job.
proto::LogBegin DescribeStart(const proto::JobPlan& plan, const StartingState& start);
absl::StatusOr<StartingState> FindStartAgain(const proto::JobPlan& plan, const VariableSet& variables,
                                             const std::vector<std::string>& slots,
                                             const proto::LogBegin& description);

// Checks that a job resumed from `state` has work left. FailedPrecondition: the state is at the job's end or
// beyond. The exception is a run that has completed its training but has not `succeeded`: such a run may be
// resumed, because its test, checkpoint or summary is missing.
absl::Status CheckLeftToTrain(const proto::JobPlan& plan, const proto::TrainingState& state, bool succeeded);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_STARTING_STATE_H_
