// Saves a checkpoint through the tasks that hold its parts: the servers or, in a job without servers, the
// workers. Pure; owned by JobController, which decides when to save.
//
//   kIdle --Begin: OpenSave--> kOpening --OnOpened: Save to every source--> kWriting
//   kWriting --OnSaveDone by every source: CommitSave--> kCommitting --OnCommitted--> kIdle
//
// An error ends the save in any state; if sources were writing, AbandonSave is emitted.
#ifndef TETHYS_RUNTIME_CHIEF_CHECKPOINT_COORDINATOR_H_
#define TETHYS_RUNTIME_CHIEF_CHECKPOINT_COORDINATOR_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"

namespace tethys {

class CheckpointCoordinator {
 public:
  enum class State { kIdle, kOpening, kWriting, kCommitting };

  // `start`: the state from which training starts. If that state comes from a checkpoint, a checkpoint of the
  // state's best epoch already exists.
  CheckpointCoordinator(const proto::JobPlan& plan, const proto::TrainingState& start);

  // The role of the tasks that hold the parameters and slots to be saved.
  proto::Role source_role() const { return source_role_; }

  // Begins save `id` of `state` and `statistics`; `sources` write the parameters and slots. Requires state()
  // == kIdle.
  void Begin(int64_t id, const proto::TrainingState& state, const MovingStatistics& statistics,
             const std::vector<TaskId>& sources, Nanoseconds now, Actions& actions);
  // Each of these three handlers returns true if its event ended the save; last_status() is then the result
  // of the save. An event that the save does not wait for has no effect, because a broken peer may answer
  // without a request, or twice.
  bool OnOpened(const absl::Status& status, Nanoseconds now, Actions& actions);
  bool OnSaveDone(TaskId source, const proto::SaveDone& done, Nanoseconds now, Actions& actions);
  bool OnCommitted(const absl::Status& status, const std::string& directory, Nanoseconds now,
                   Actions& actions);

  // Ends a save because its sources stop writing; another save of the same state is to follow. Requires
  // state() == kWriting.
  void Abandon(Nanoseconds now, Actions& actions);

  // Called when training begins. Until the first save, SecondsSinceSave measures the time since this call.
  void TrainingBegins(Nanoseconds now) { last_saved_ = now; }
  // Seconds since the last successful save ended, or since training began.
  double SecondsSinceSave(Nanoseconds now) const { return ToSeconds(now - last_saved_); }

  State state() const { return state_; }
  // The result of the last save that ended; OK if there was none.
  Nanoseconds begun() const { return begin_; }  // When the last save began.
  const absl::Status& last_status() const { return last_status_; }
  // The best epoch at the time of the last successful save. Its step is 0 if there was no best epoch.
  const proto::BestEpoch& saved_best() const { return saved_best_; }
  void FillSummary(proto::RunSummary& summary) const;

  void Save(proto::SaveState& state) const;
  // `sources`: the number of tasks that hold parameters. InvalidArgument: `state` names a source that is not
  // one of these tasks.
  absl::Status Restore(const proto::SaveState& state, int sources);

 private:
  bool End(const absl::Status& status, const std::string& directory, Nanoseconds now, Actions& actions);

  const proto::Role source_role_;
  const int64_t arena_size_;  // The size of the parameters' arena in elements, padding included.

  State state_ = State::kIdle;
  int64_t id_ = 0;
  proto::TrainingState training_state_;  // The state that is being saved.
  std::vector<TaskId> sources_;
  std::set<TaskId> writing_;  // The sources that have not answered the order to write.
  std::string source_error_;  // The first error that a source reported.
  Nanoseconds begin_ = 0;

  Nanoseconds last_saved_ = 0;
  absl::Status last_status_;
  proto::BestEpoch saved_best_;
  std::string last_directory_;
  int checkpoints_written_ = 0;
  double seconds_ = 0;  // Total time of all saves.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHECKPOINT_COORDINATOR_H_
