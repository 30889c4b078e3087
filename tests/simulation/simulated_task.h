// The common part of simulated workers and servers: the session with the chief, heartbeats, and the loop that
// takes orders. The loop models OrderReader and LiveAsTask (runtime/cluster/) as events, and feeds a
// TaskCourse of the product.
#ifndef TETHYS_TESTS_SIMULATION_SIMULATED_TASK_H_
#define TETHYS_TESTS_SIMULATION_SIMULATED_TASK_H_

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "proto/chief.pb.h"
#include "runtime/cluster/task_course.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/process.h"

namespace tethys::simulation {

class SimulatedTask : public Process {
 public:
  using Process::Process;

  // Connects to the chief and joins.
  void Begin();
  // Whether the session is broken. The task ends once it notices the break.
  bool cut_off() const { return session_ != nullptr && session_->broken(); }
  // An order of the chief has arrived.
  void OnOrder(const proto::ToTask& order);

 protected:
  virtual TaskCourse& course() = 0;
  // Carries out the order course().duty() or, within a segment, the next step. Then calls Finished or Resume.
  virtual void Work() = 0;
  virtual void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) = 0;
  // Called as soon as a Halt arrives, before the task has taken the orders that arrived earlier.
  virtual void OnHalt(const proto::Halt& /*halt*/) {}
  // Called as soon as the chief says that a server was replaced.
  virtual void OnServers() {}

  void Finished();  // Called when the duty is carried out.
  void Resume();    // Called when the step is made; takes orders again.
  // Reports the status, unless it is OK, and exits.
  void Leave(const absl::Status& status);
  void LeaveUnlessOk(const absl::Status& status) {
    if (!status.ok()) Leave(status);
  }

  void Send(const proto::FromTask& message);
  void SendAnswers();  // Sends the answers that the course has for the chief.
  void Beat();
  // Writes ranges into the checkpoint, answers the chief's Save, and finishes.
  void WriteCheckpoint(std::vector<SavedRange> ranges);

 private:
  void Go();
  void BeatAgain();

  std::shared_ptr<Connection> session_, save_;
  std::deque<proto::ToTask> orders_;
  bool working_ = false;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_TASK_H_
