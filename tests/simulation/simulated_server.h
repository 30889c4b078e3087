// A simulated server: the product's TaskCourse and ParameterStore, and a model of ParameterServer and
// ServerTask (ps/).
#ifndef TETHYS_TESTS_SIMULATION_SIMULATED_SERVER_H_
#define TETHYS_TESTS_SIMULATION_SIMULATED_SERVER_H_

#include <memory>
#include <vector>

#include "ps/parameter_store.h"
#include "tests/simulation/simulated_task.h"

namespace tethys::simulation {

class SimulatedWorker;

class SimulatedServer final : public SimulatedTask, public StoreActions {
 public:
  SimulatedServer(World& world, int index)
      : SimulatedTask(world, {proto::PS, index}, 1), course_(proto::PS) {}

  // A worker has connected; `connection` is its newest stream from now on.
  void OnConnection(SimulatedWorker& worker, const std::shared_ptr<Connection>& connection);
  void OnFrame(const std::shared_ptr<Connection>& connection, const Frame& frame,
               const std::vector<float>& payload);

 private:
  struct WorkerStream {
    std::shared_ptr<Connection> connection;
    SimulatedWorker* worker = nullptr;
  };

  TaskCourse& course() override { return course_; }
  void Work() override;
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) override;

  void JoinGroup();
  absl::Status BeginStore();  // Creates the store, for the first group.
  void Halt();
  void Fence();
  void Save();

  void Record(const proto::AppliedPush& push) override;
  void Reply(const ParameterReply& reply) override;
  void ReplyNorm(const NormReply&) override {}
  void Fail(const absl::Status& status) override { Leave(status); }

  TaskCourse course_;
  proto::Setup setup_;
  uint32_t generation_ = 0;
  std::shared_ptr<ParameterStore> store_;  // In lock step, answers are read from the store when they arrive.
  bool serving_ = false;
  std::vector<WorkerStream> streams_;  // One stream for each rank.
  proto::AppliedPushes applied_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_SERVER_H_
