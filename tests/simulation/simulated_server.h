// A simulated server: the product's TaskCourse and ParameterStore, and a model of ParameterServer and
// ServerTask (ps/).
#ifndef TETHYS_TESTS_SIMULATION_SIMULATED_SERVER_H_
#define TETHYS_TESTS_SIMULATION_SIMULATED_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ps/parameter_store.h"
#include "ps/shard_copy.h"
#include "tests/simulation/copy_stream.h"
#include "tests/simulation/simulated_task.h"

namespace tethys::simulation {

class SimulatedWorker;

class SimulatedServer final : public SimulatedTask, public StoreActions {
 public:
  SimulatedServer(World& world, int index, uint32_t incarnation)
      : SimulatedTask(world, {proto::PS, index}, incarnation), course_(proto::PS) {}

  World& simulated() const { return world(); }

  // A worker has connected; `connection` is its newest stream from now on.
  void OnConnection(SimulatedWorker& worker, const std::shared_ptr<Connection>& connection);
  void OnFrame(const std::shared_ptr<Connection>& connection, const Frame& frame,
               const std::vector<float>& payload);
  // A frame of another server's copy, or of this server's own shards, has arrived.
  void OnCopyFrame(const std::shared_ptr<Connection>& connection, const Frame& frame,
                   const std::string& payload, std::function<void(const Frame&)> answer);

 private:
  struct WorkerStream {
    std::shared_ptr<Connection> connection;
    SimulatedWorker* worker = nullptr;
  };

  TaskCourse& course() override { return course_; }
  void Work() override;
  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) override;

  void OnHalt(const proto::Halt& halt) override;

  void JoinGroup();
  absl::Status BeginStore();  // Creates the store, for the first group.
  // The functions that model ShardCopies::Join, in their order.
  void ExchangeCopies();
  void GiveBack(std::function<void()> then);
  void OfferShards();
  void SayFormed();
  std::shared_ptr<CopyStream> SendTo(int receiver, int primary, std::function<void(int64_t)> on_copied);
  absl::Status TakeOwnShards();
  void Halt();
  void Fence();
  void Save();

  void Copy(Range local, int64_t version) override;
  void CopyAll(int64_t number, const proto::PushBook& book) override;
  void OnCopied(int64_t version);
  absl::StatusOr<std::shared_ptr<ShardCopy>> NewCopy(int primary) const;
  bool leases() const;
  // The generation of the workers' frames.
  uint32_t worker_generation() const;
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

  // In jobs whose servers have copies.
  uint32_t halted_ = 0;           // The latest generation of a Halt.
  uint32_t takes_copies_of_ = 0;  // The generation of the group; 0: the server is in no group.
  bool joining_ = false;          // Exchanges copies.
  bool has_values_ = false;       // False: the server has not taken its shards.
  std::shared_ptr<ShardCopy> kept_, own_;
  absl::optional<int64_t> restored_;  // The version of the shards that were taken last.
  std::shared_ptr<CopyStream> to_backup_, to_primary_;
  std::function<void()> on_taken_;
  std::function<void()> on_all_copied_;  // Answers a Fence that waits for a copy.
  int64_t awaited_copy_ = 0;             // The number of this copy.
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_SERVER_H_
