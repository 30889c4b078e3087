// The life of a task, common to workers and parameter servers: join, set up, obey until told to stop, report
// failures.
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

// The part that differs between workers and servers. Called by the thread that runs LiveAsTask. The session's
// thread also calls FillBeat and step, once JoinGroup has returned.
class TaskLife {
 public:
  virtual ~TaskLife() = default;
  virtual absl::Status SetUp(const proto::Setup& setup) = 0;
  // Makes the task, which is set up, a member of the group.
  virtual absl::Status JoinGroup(const proto::Group& group) = 0;
  // Adds the task's own fields to the message that follows JoinGroup.
  virtual void FillReady(proto::Ready&) const {}
  // The identity of the GPU the task computes on (Device::identity), once SetUp has returned; empty: no GPU.
  virtual std::string gpu() const { return ""; }
  // Carries out a duty of the task's course other than Setup and Form. An error ends the task as failed.
  virtual absl::Status Obey(const proto::ToTask& order) = 0;
  virtual void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) = 0;
  virtual int64_t step() const = 0;
};

// Blocks for the whole job. OK if the chief ended the job well; Aborted if the chief ended it otherwise; else
// this task's own failure, which has been reported to the chief. `orders` reads `session`, and its course
// says what the task does.
absl::Status LiveAsTask(const TaskOptions& options, TaskSession& session, const Clock& clock,
                        const std::string& data_address, OrderReader& orders, TaskLife& life);

// Reports the result of this task's part of a save to the chief.
void SendSaveDone(TaskSession& session, int64_t save_id, const absl::Status& status);

// Tells the chief that this task has failed.
void SendFailure(TaskSession& session, const absl::Status& status, int64_t step);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_LIFE_H_
