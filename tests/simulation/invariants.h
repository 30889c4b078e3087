// The invariants of a run, checked at every event that concerns them:
//
//  1. Each sample of an epoch is used once in the ledger, over all attempts. When a later attempt begins,
//  only the uses after its starting state are undone.
//  2. No worker begins a step before all others have pushed the steps that the consistency asks for. Servers
//  in lock step are at most one version apart, and take back no step that the ledger counts.
//  3. Parameters equal those of a serial loop. In lock step this holds after every step. In jobs that lease
//  batches to workers it holds at every barrier, where the parameters are the sum over the samples in the
//  ledger. A torn batch, which only some servers applied, counts only for the shards of these servers.
//  4. All parts of a checkpoint belong to one step and are written. Its values are those of invariant 3.
//  5. An evaluation covers every sample once, with these parameters.
//  6. The job does not end while an order is unanswered, and it always says why it ends. A loss that the job
//  survives does not end the job; any other error names a task that a disturbance hit. No undisturbed task
//  counts as lost. No mirrored job ends, or gives up a living worker, while this worker alone has the
//  parameters.
//  7. At the end the product's own check of the journal passes, and the last checkpoint has the parameters.
#ifndef TETHYS_TESTS_SIMULATION_INVARIANTS_H_
#define TETHYS_TESTS_SIMULATION_INVARIANTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/chief.pb.h"
#include "tests/simulation/process.h"
#include "tests/simulation/simulated_job.h"

namespace tethys::simulation {

struct Checkpoint;

class Invariants {
 public:
  explicit Invariants(World& world);

  // An attempt begins with `state` and `values`.
  void OnAttempt(const proto::TrainingState& state, const Values& values);
  void OnJournalLine(absl::string_view line);
  void OnOrder(TaskId task, uint32_t incarnation, const proto::ToTask& order);
  void OnAnswer(TaskId task, const proto::FromTask& answer);
  // A worker begins step `clock`, or has sent all of the push of this step. SegmentCourse numbers the steps.
  void OnStepBegins(TaskId worker, uint32_t incarnation, int64_t clock);
  void OnPushed(TaskId worker, uint32_t incarnation, int64_t clock);
  // In lock step: a worker has these parameters after `steps` steps of the job.
  void OnStepMade(const Process& worker, const std::vector<float>& parameters, int64_t steps);
  void OnVersion(int server, int64_t version);
  // A server serves a new group from `version` on.
  void OnStepBack(int server, int64_t version);
  // A replaced server has taken the newest copy of its shards, which may lack its last updates.
  void OnRestore(int server) { versions_.erase(server); }
  void OnCommit(const Checkpoint& checkpoint);
  void OnProgress(const proto::ProgressEvent& event);
  // The controller has ended the job with an error.
  void OnFailedEnd(const absl::Status& status, TaskId culprit);
  // The run is over. `lines`: the journal's file; `newest`: the last checkpoint.
  void OnRunEnd(const std::string& lines, const Checkpoint& newest);

  // The sum of losses that a worker must report for samples [begin, end) with these parameters.
  double LossSum(const std::vector<float>& parameters, int64_t begin, int64_t end) const;

 private:
  struct Pushes {
    uint32_t incarnation = 0;
    int64_t next = 0;  // The first step that the worker has not pushed.
  };

  void CheckValues(const Values& values, const proto::TrainingState& state, const std::string& where);
  void CheckNoNeedlessLoss(const proto::TaskLost& lost);
  const std::vector<float>& ParametersAt(const proto::TrainingState& state);
  void Use(int64_t begin, int64_t count);
  void Tear(int64_t begin, int64_t count, const std::set<int>& servers);

  World& world_;
  const bool leased_;

  std::vector<bool> used_;           // Whether each sample of the whole job is used, by position.
  std::vector<float> sum_;           // For leased jobs: the parameters, computed from the journal.
  std::map<int, Pushes> pushes_;     // One entry for each worker that takes part.
  std::map<int, int64_t> versions_;  // One entry for each server.
  int64_t counted_ = 0;              // In lock step: the number of steps in the ledger.
  std::map<TaskId, std::multiset<std::string>> unanswered_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_INVARIANTS_H_
