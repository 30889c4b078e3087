// A simulated worker: the product's WorkerCourse, and a model of everything around it. A step takes a random
// time; its gradient is SmallModel's.
//
// In a job that forms new groups, a worker whose exchange fails leaves its group, tells the chief, and waits
// for the next group. Halt makes the exchange fail at once, also while a group forms.
#ifndef TETHYS_TESTS_SIMULATION_SIMULATED_WORKER_H_
#define TETHYS_TESTS_SIMULATION_SIMULATED_WORKER_H_

#include <map>
#include <memory>
#include <vector>

#include "runtime/tensor/frame.h"
#include "tests/simulation/exchange.h"
#include "tests/simulation/simulated_task.h"
#include "workers/worker_course.h"

namespace tethys::simulation {

class SimulatedWorker final : public SimulatedTask {
 public:
  SimulatedWorker(World& world, int index, uint32_t incarnation)
      : SimulatedTask(world, {proto::WORKER, index}, incarnation), course_(index) {}

  using Process::world;
  using SimulatedTask::Leave;
  // The generation of the job's membership; known once the worker joins a group.
  uint32_t generation() const { return generation_; }

  // Set by the exchange with servers; called when an answer has arrived.
  std::function<void(int server, const Frame& frame, const float* values)> on_answer;

  // ---- mirrored jobs

  const proto::Form& form() const { return form_; }  // The order for the newest group.
  // Another worker of the group is connected, over this connection.
  void MeetPeer(SimulatedWorker& peer, const std::shared_ptr<Connection>& connection);
  bool meets() const { return meets_; }  // The worker waits for the other members.
  // The connections by worker index.
  const std::map<int, std::shared_ptr<Connection>>& peers() const { return peers_; }
  const absl::Status& ring_status() const { return ring_status_; }
  // The ring is broken, because the connection to worker `suspect` failed.
  void BreakRing(const absl::Status& status, int suspect);
  // has_state(): whether the worker has parameters of the job's training. applied(): the number of steps in
  // them.
  bool has_state() const { return has_state_; }
  int64_t applied() const { return applied_; }
  // Takes the state that was copied from the source of the group or fetched from servers.
  void TakeState(const Values& values);
  // Callbacks that the exchange sets. They are called when all workers of the group are connected, when a
  // peer's gradient of a step has arrived, when a part of a copied state has arrived, and when the ring
  // breaks.
  Exchange::Then on_met;
  std::function<void(int index, int64_t step, const std::vector<float>& gradient)> on_gradient;
  std::function<void(int slot, const std::vector<float>& values)> on_copy;
  std::function<void()> on_ring_broken;

 private:
  TaskCourse& course() override { return course_; }
  void Work() override;
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) override;

  void OnHalt(const proto::Halt& halt) override;
  void OnServers() override;
  // Called when an operation of the group has failed.
  void OnBroken(const absl::Status& status);
  void SayHalted(proto::Halted halted);
  void AnswerHalt();
  void JoinGroup();
  void SayFormed();
  void Evaluate();
  void Save();
  // Makes a step: BeginStep of the exchange, then Compute, then EndStep of the exchange, then Record.
  void MakeStep();
  void Compute();
  void Record();
  void EndRun();
  // Returns a callback that calls `next` if the status is OK, and otherwise OnBroken.
  Exchange::Then Or(std::function<void()> next);

  WorkerCourse course_;
  uint32_t generation_ = 0;
  Values values_;
  std::unique_ptr<Exchange> exchange_;
  // Exchanges of earlier groups, to which events may still refer.
  std::vector<std::unique_ptr<Exchange>> past_;
  proto::Form form_;
  std::map<int, std::shared_ptr<Connection>> peers_;  // Connections by worker index.
  absl::Status ring_status_;
  int suspect_ = -1;     // The worker that broke the ring; -1: none.
  uint32_t halted_ = 0;  // Generations up to this one are halted.
  bool meets_ = false;
  bool has_state_ = false;
  int64_t applied_ = 0;
  Step step_;          // The current step.
  int announced_ = 0;  // Batches in the loader whose steps have not begun.
  proto::StepRecords records_;
  int64_t steps_ = 0;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_WORKER_H_
