// A simulated chief: the product's JobController, and a model of what ChiefProcess, ChiefServer and
// CheckpointSaver (runtime/chief/) do around it.
//
// At random events the controller's state is written, read back, and given to a fresh controller. The event
// goes to both; actions and states must be equal, and the fresh one goes on.
#ifndef TETHYS_TESTS_SIMULATION_SIMULATED_CHIEF_H_
#define TETHYS_TESTS_SIMULATION_SIMULATED_CHIEF_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/chief/job_controller.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/process.h"

namespace tethys::simulation {

class SimulatedTask;

class SimulatedChief final : public Process {
 public:
  SimulatedChief(World& world, const proto::TrainingState& state, bool restore);

  void Begin();
  // A task opens its session.
  void Accept(SimulatedTask& task, const std::shared_ptr<Connection>& session);
  void OnMessage(TaskId task, uint32_t incarnation, const proto::FromTask& message);
  // A chunk of a checkpoint has arrived.
  absl::Status Write(int64_t save, const SavedRange& range);
  void Interrupt() { interrupted_ = true; }

 private:
  struct Session {
    std::shared_ptr<Connection> connection;
    SimulatedTask* task = nullptr;
    uint32_t incarnation = 0;
  };
  using Event = std::function<void(JobController&, Actions&)>;

  void Tick();
  void Step(const Event& event);
  // The event at this controller and at one that was restored from its state; the latter goes on.
  void StepRestored(const Event& event, Actions& actions);
  void HandOnJournal();

  void Do(SendOrder& action);
  void Do(WriteJournal& action);
  void Do(Report& action);
  void Do(KeepRecords&) {}
  void Do(KeepResources&) {}
  void Do(OpenSave& action);
  void Do(CommitSave&);
  void Do(AbandonSave&);
  void Do(EndJob& action);

  void SendTo(const Session& session, const proto::ToTask& order);
  // Deliberate faults: as a message arrives; as an order is sent, which may be altered. True: it is not sent.
  void Misbehave(TaskId task, const proto::FromTask& message);
  bool Drops(TaskId task, proto::ToTask& order);

  std::unique_ptr<JobController> controller_;
  std::string older_state_;
  std::map<TaskId, Session> sessions_;
  std::string journal_;  // Lines that are not in the file yet.
  bool interrupted_ = false;
  bool ended_ = false;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_CHIEF_H_
