// A simulated chief: the product's JobController, and a model of ChiefProcess, ChiefServer and
// CheckpointSaver (runtime/chief/).
//
// At random events, a second controller is restored from the saved state of the controller. Both controllers
// get the event, and must have equal actions and states afterwards; the second controller then replaces the
// first.
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
  // Gives the event to the controller and to a controller restored from its state, which then replaces it.
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
  void Misbehave(TaskId task, proto::FromTask& message);
  bool Drops(TaskId task, proto::ToTask& order);
  // Records of the other workers, up to so many steps, before these workers have made the steps.
  void Forge(const proto::Group& group, TaskId by, int64_t steps);
  // Takes a worker for a holder of the parameters if a process of the worker, also a lost one, has said so.
  void TrustOldAnswers(proto::Form& form) const;
  void GiveUpTheSilent();

  std::unique_ptr<JobController> controller_;
  std::string older_state_;
  std::map<TaskId, Session> sessions_;
  proto::Group group_;                   // The newest.
  std::map<int, int64_t> recorded_;      // Steps that workers have recorded, or that were forged for them.
  std::map<int, int64_t> last_applied_;  // As workers have said, by index, whichever process it was.
  std::map<TaskId, Nanoseconds> heard_;
  proto::Run run_;       // The newest.
  std::string journal_;  // Lines that are not in the file yet.
  bool interrupted_ = false;
  bool ended_ = false;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_CHIEF_H_
