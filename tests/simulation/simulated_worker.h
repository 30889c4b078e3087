// A simulated worker: the product's WorkerCourse, and a model of the rest of a worker. A step takes a random
// time, and SmallModel computes its gradient.
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

  // Adds a peer of the ring, and the connection to it.
  void MeetPeer(SimulatedWorker& peer, const std::shared_ptr<Connection>& connection);
  const std::map<int, std::shared_ptr<Connection>>& peers() const { return peers_; }
  const absl::Status& ring_status() const { return ring_status_; }
  // Functions that the exchange sets. They are called when all workers have met, when a peer's gradient of a
  // step has arrived, and when the ring is broken.
  Exchange::Then on_met;
  std::function<void(int rank, int64_t step, const std::vector<float>& gradient)> on_gradient;
  std::function<void()> on_ring_broken;

 private:
  TaskCourse& course() override { return course_; }
  void Work() override;
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) override;

  void JoinGroup();
  void Evaluate();
  void Save();
  // A step: BeginStep of the exchange, Compute, EndStep of the exchange, Record.
  void MakeStep();
  void Compute();
  void Record();
  void EndRun();
  // Calls `next` if the status is OK, and otherwise fails.
  Exchange::Then Or(std::function<void()> next);

  WorkerCourse course_;
  uint32_t generation_ = 0;
  Values values_;
  std::unique_ptr<Exchange> exchange_;
  std::map<int, std::shared_ptr<Connection>> peers_;  // One connection for each peer, by rank.
  absl::Status ring_status_;
  Step step_;          // The current step.
  int announced_ = 0;  // The number of prefetched batches whose steps have not begun.
  proto::StepRecords records_;
  int64_t steps_ = 0;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_WORKER_H_
