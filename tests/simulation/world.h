// One run of the simulation: a job from its first attempt to its success, in virtual time on one thread.
// Everything follows from the seed. The world has the queue of events, the processes and the disk, and plays
// the launcher and the user: it starts processes, replaces lost workers, interrupts the job, and resumes a
// failed or interrupted job from its newest checkpoint, sometimes with other numbers of tasks.
#ifndef TETHYS_TESTS_SIMULATION_WORLD_H_
#define TETHYS_TESTS_SIMULATION_WORLD_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/telemetry.pb.h"
#include "tests/simulation/deliberate_faults.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/disturbances.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/simulated_chief.h"
#include "tests/simulation/simulated_job.h"

namespace tethys::simulation {

class SimulatedServer;
class SimulatedWorker;

struct RunOptions {
  uint64_t seed = 0;
  Kind kind = Kind::kLocal;
  Fault fault = Fault::kNone;
  bool trace = false;  // Prints what happens.
};

struct RunResult {
  std::string broken;  // The first invariant that did not hold; empty: all held.
  int attempts = 0;
  int restarts = 0;  // The number of replaced workers and servers.
  uint64_t events = 0;
  Nanoseconds ended = 0;  // The virtual time at which the run ended.
  std::array<int, kPoints> aimed = {};
};

class World {
 public:
  explicit World(const RunOptions& options);
  ~World();
  RunResult Run();

  // ---- parts
  EventQueue& queue() { return queue_; }
  Random& random() { return random_; }
  Disturbances& disturbances() { return disturbances_; }
  Invariants& invariants() { return invariants_; }
  Disk& disk() { return disk_; }
  SmallModel& model() { return model_; }
  Kind kind() const { return options_.kind; }
  const proto::JobPlan& plan() const { return plan_; }  // The plan of the attempt.
  // The values with which the attempt begins.
  const Values& start() const { return start_; }
  SimulatedChief& chief() { return *chief_; }
  SimulatedWorker* worker(int index) { return workers_[static_cast<size_t>(index)]; }  // The newest process.
  SimulatedServer* server(int index) const { return servers_[static_cast<size_t>(index)]; }
  std::vector<Process*> LivingProcesses() const;

  // ---- durations of this run
  Nanoseconds message_delay() const { return message_delay_; }
  Nanoseconds step_time() const { return step_time_; }
  Nanoseconds beat_interval() const { return beat_interval_; }

  // ---- events that processes report
  void OnProcessEnd(Process& process, Process::End end);
  // The chief counts this task as lost. If its process still exists, the process is killed.
  void EndLostTask(const proto::TaskLost& lost);
  void OnJobEnd(const absl::Status& status, TaskId culprit);
  // A mirrored worker joins its newest group. When all members have joined, each pair of them is connected.
  // If a member has died, the other members notice that after a while.
  void Meet(SimulatedWorker& worker);
  // Whether a worker process other than `except` has parameters of the job's training, and is alive, has its
  // session, and was not given up by the chief. A process that died less than `ago` ago counts as alive.
  bool OthersHaveState(const Process* except, Nanoseconds ago) const;
  // Whether the chief counts the process as lost, although it may still run.
  bool GivenUp(const Process& process) const { return given_up_.count(&process) > 0; }
  void Interrupt() { chief_->Interrupt(); }

  // ---- faults and failures
  Fault fault() const { return options_.fault; }
  // True with `probability` if `fault` is the deliberate fault of this run.
  bool Misbehaves(Fault fault, double probability) {
    return options_.fault == fault && fault_random_.Chance(probability);
  }
  // Records that an invariant does not hold; the run then ends.
  template <typename... Words>
  void Broken(const Words&... words) {
    if (result_.broken.empty()) result_.broken = absl::StrCat(words...);
    Trace("BROKEN ", words...);
  }
  bool traces() const { return options_.trace; }
  template <typename... Words>
  void Trace(const Words&... words) const {
    if (traces()) Print(absl::StrCat(words...));
  }

 private:
  enum class Attempt { kRuns, kEndedWell, kEnded };

  void BeginAttempt(bool quiet);
  // Runs events until the attempt is over.
  void RunAttempt();
  void EndAttempt();
  void StartWorker(int index, uint32_t incarnation);
  void StartServer(int index, uint32_t incarnation);
  // The newest process of a task.
  Process* NewestOf(TaskId task) const;
  bool MeetsStill(const SimulatedWorker& worker, uint32_t generation) const;
  void Connect(const std::vector<SimulatedWorker*>& members);
  void LookForDeadPeers(SimulatedWorker& worker, uint32_t generation);
  std::string Unfinished() const;  // The error text for a job that does not end.
  void Print(const std::string& line) const;

  const RunOptions options_;
  EventQueue queue_;
  Random random_, fault_random_;
  proto::JobPlan plan_;
  SmallModel model_;
  Disk disk_;
  Disturbances disturbances_;
  Invariants invariants_;
  const Nanoseconds message_delay_, step_time_, beat_interval_;

  RunResult result_;
  Attempt attempt_ = Attempt::kRuns;
  Nanoseconds begun_ = 0;  // When the attempt began.
  Values start_;
  int restarts_ = 0;  // Workers and servers replaced in the attempt.
  // Processes that have ended are kept, because events may refer to them.
  std::vector<std::unique_ptr<Process>> processes_;
  SimulatedChief* chief_ = nullptr;
  std::vector<SimulatedServer*> servers_;  // The newest process of each server index.
  std::vector<SimulatedWorker*> workers_;  // The newest process of each worker index.
  std::vector<SimulatedWorker*> meeting_;
  std::map<const Process*, Nanoseconds> died_;
  std::set<const Process*> given_up_;  // Tasks that the chief counts as lost.
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_WORLD_H_
