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
  // Gives the event to the controller and to a second controller, which is restored from the first
  // controller's state. Then the second controller replaces the first.
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
  // Deliberate faults. Misbehave is called when a message arrives, and Drops when an order is to be sent.
  // Drops may alter the order. It returns true if the order must not be sent.
  void Misbehave(TaskId task, proto::FromTask& message);
  bool Drops(TaskId task, proto::ToTask& order);
  // Gives the controller forged records of all members of the group except `by`, up to step `steps`, before
  // these workers have made the steps.
  void Forge(const proto::Group& group, TaskId by, int64_t steps);
  // Fault::kOldAnswer: trusts answers of lost processes. Removes a worker from form.behind if the last Halted
  // from any process of this worker has the number of steps form.step.
  void TrustOldAnswers(proto::Form& form) const;
  void GiveUpTheSilent();

  std::unique_ptr<JobController> controller_;
  std::string older_state_;
  std::map<TaskId, Session> sessions_;
  proto::Group group_;               // The newest group.
  std::map<int, int64_t> recorded_;  // Steps that workers have recorded, or that were forged for them.
  // The last Halted.applied of each worker index, from any incarnation.
  std::map<int, int64_t> last_applied_;
  std::map<TaskId, Nanoseconds> heard_;
  proto::Run run_;       // The newest order to run.
  std::string journal_;  // Lines that are not in the file yet.
  bool interrupted_ = false;
  bool ended_ = false;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_CHIEF_H_
