// The changes that an attempt makes to the files of its run directory when it begins. Earlier attempts may
// have trained beyond the state in which this one begins. That work is undone, and must disappear from all
// files.
//
//   checkpoints/step-N      a damaged one is renamed               BeginCheckpoints
//   checkpoints/best        the best epoch of the state            BeginCheckpoints
//   journal                 a line `attempt` undoes what is undone (journal.h)
//   epochs.csv, steps.csv   lines of undone work are removed       BeginTraining
//   summary.json            removed                                BeginTraining
//   progress.jsonl, event files   are the launcher's: the event `started` tells it the state
//
// An attempt that ends before it trains leaves tables and summary as they were.
#ifndef TETHYS_RUNTIME_CHIEF_ATTEMPT_FILES_H_
#define TETHYS_RUNTIME_CHIEF_ATTEMPT_FILES_H_

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/chief/starting_state.h"
#include "runtime/telemetry/timing_collector.h"

namespace tethys {

// Renames damaged checkpoints, which would otherwise count among the checkpoints to keep, and makes ROOT/best
// point to the best checkpoint of the state. If that checkpoint is gone (a better one, damaged since, had
// replaced it), the state forgets it. Returns lines for the user. Called before anything is saved; blocks on
// files.
std::vector<std::string> BeginCheckpoints(const std::string& root, StartingState& start);

// Called once training begins. Blocks on files; on any thread.
absl::Status BeginTraining(const std::string& run_dir, TimingCollector& tables);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_ATTEMPT_FILES_H_
