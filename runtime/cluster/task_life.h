// The life of a task, common to workers and parameter servers: join the job, be set up, join a group, carry
// out orders until the chief stops the task, and report failures.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_LIFE_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_LIFE_H_

#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/order_reader.h"
#include "runtime/cluster/task_options.h"
#include "runtime/cluster/task_session.h"

namespace tethys {

// The functions that differ between workers and servers. Called by the thread that runs LiveAsTask. The
// session's thread also calls FillBeat and step, once JoinGroup has first returned OK.
class TaskLife {
 public:
  virtual ~TaskLife() = default;
  virtual absl::Status SetUp(const proto::Setup& setup) = 0;
  // Adds the task's own fields to Ready, the message that follows SetUp.
  virtual void FillReady(proto::Ready&) const {}
  // Makes the task a member of the group, and of no earlier group. Called after SetUp. Sets copy_ns and
  // exchange of `formed`, the message that follows.
  virtual absl::Status JoinGroup(const proto::Form& form, proto::Formed& formed) = 0;
  // Called before the task answers Halt: after that, the task changes no parameters until JoinGroup.
  virtual absl::Status LeaveGroup() { return absl::OkStatus(); }
  // The identity of the GPU that the task computes on (Device::identity), once SetUp has returned; empty: no
  // GPU.
  virtual std::string gpu() const { return ""; }
  // Carries out an order (TaskCourse::duty) other than Setup, Form and Halt.
  virtual absl::Status Obey(const proto::ToTask& order) = 0;

  // The meaning of the last error of JoinGroup or Obey.
  enum class Trouble {
    kFailure,  // The task has failed, and ends.
    kBroken,   // An exchange with another member failed: the task has left its group, and tells the chief.
    kHalted,   // The chief's Halt, which the session delivers, made the task leave its group.
  };
  virtual Trouble trouble() const { return Trouble::kFailure; }
  // Adds to Halted the number of steps that the task has applied. In the first call after kBroken, also adds
  // the reason why the exchange failed.
  virtual void FillHalted(proto::Halted&) {}

  virtual void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) = 0;
  virtual int64_t step() const = 0;
};

// Lets the task live from Join to Stop; blocks for the whole job. Returns OK if the chief ended the job
// without a failure, and Aborted if the chief ended the job because of a failure elsewhere. Otherwise returns
// this task's own failure, which has been reported to the chief. `orders` must read from `session`; the
// course of `orders` determines which order the task carries out.
absl::Status LiveAsTask(const TaskOptions& options, TaskSession& session, const Clock& clock,
                        const std::string& data_address, OrderReader& orders, TaskLife& life);

// Reports the result of this task's part of a save to the chief.
void SendSaveDone(TaskSession& session, int64_t save_id, const absl::Status& status);

// Tells the chief that this task has failed.
void SendFailure(TaskSession& session, const absl::Status& status, int64_t step);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_LIFE_H_
