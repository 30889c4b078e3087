// The changes that an attempt (the first start of a job, or a resumption) makes to the files of its run
// directory when it begins. Earlier attempts may have trained beyond the state in which the new attempt
// begins. That work is undone: it must disappear from all files.
//
//   checkpoints/step-N      renamed if damaged                     BeginCheckpoints
//   checkpoints/best        linked to the best checkpoint          BeginCheckpoints
//   journal                 an `attempt` line marks the undone work (journal.h)
//   epochs.csv, steps.csv   lines of undone work are removed       BeginTraining
//   summary.json            removed                                BeginTraining
//   progress.jsonl, event files   changed by the launcher, which learns the state from the event `started`
//
// An attempt that ends before it trains does not change the CSV files or summary.json.
#ifndef TETHYS_RUNTIME_CHIEF_ATTEMPT_FILES_H_
#define TETHYS_RUNTIME_CHIEF_ATTEMPT_FILES_H_

#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "runtime/base/status.h"
#include "runtime/chief/starting_state.h"
#include "runtime/telemetry/timing_collector.h"

namespace tethys {

// Sets the earlier attempts in `state`, the starting state of a run that is resumed. The last attempt has
// left a summary, unless the attempt's chief was killed.
void NoteEarlierAttempts(const std::string& run_dir, proto::TrainingState& state);

// Renames damaged checkpoints, which would otherwise count among the checkpoints to keep, and makes ROOT/best
// point to the best checkpoint that `start` names. If that checkpoint no longer exists (it was replaced by a
// better one, which has been damaged since), `start` has no best epoch afterwards. Returns messages for the
// user. Must be called before anything is saved; blocks on files.
std::vector<std::string> BeginCheckpoints(const std::string& root, StartingState& start);

// Removes summary.json, and the lines of undone work from `tables`. Called once training begins, on any
// thread; blocks on files.
absl::Status BeginTraining(const std::string& run_dir, TimingCollector& tables);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_ATTEMPT_FILES_H_
