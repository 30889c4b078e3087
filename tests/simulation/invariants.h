// The invariants of a run, checked at every event that concerns them:
//
//  1. Over all attempts, each sample of an epoch is used once according to the journal. If an attempt resumes
//  from an earlier state, the uses after this state are undone, and no others.
//  2. No worker begins a step before all other workers have pushed the steps that the consistency requires.
//  The versions of servers in lock step differ by at most one.
//  3. In lock step, the parameters after every step equal the parameters of a serial loop. On leases, the
//  parameters at every barrier are the sum over the used samples, less the parts of torn batches that no
//  server applied.
//  4. A checkpoint is complete, belongs to one step, and has the values of invariant 3.
//  5. An evaluation covers every sample once, with the parameters of invariant 3.
//  6. The job does not end while an order is unanswered, and it always says why it ends. The loss of a worker
//  ends the job only if the job cannot survive it. Every other end with an error names a task that was
//  disturbed. No undisturbed task is lost.
//  7. At the end of a run, the product's check of the journal passes, and the last checkpoint has the final
//  parameters.
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
  const std::vector<float>& ParametersAt(const proto::TrainingState& state);
  void Use(int64_t begin, int64_t count);
  void Tear(int64_t begin, int64_t count, const std::set<int>& servers);

  World& world_;
  const bool leased_;

  std::vector<bool> used_;           // Whether each sample of the whole job is used, by position.
  std::vector<float> sum_;           // For leased jobs: the parameters, computed from the journal.
  std::map<int, Pushes> pushes_;     // One entry for each worker that takes part.
  std::map<int, int64_t> versions_;  // One entry for each server.
  std::map<TaskId, std::multiset<std::string>> unanswered_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_INVARIANTS_H_
