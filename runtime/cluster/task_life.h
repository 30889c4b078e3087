// What workers and parameter servers have in common: join, set up, obey until told to stop, report failures.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_LIFE_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_LIFE_H_

#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_options.h"
#include "runtime/cluster/task_session.h"

namespace tethys {

// The task's own part. Called by the thread that runs LiveAsTask, but for FillBeat and step: those also by
// the session's, once SetUp has returned.
class TaskLife {
 public:
  virtual ~TaskLife() = default;
  virtual absl::Status SetUp(const proto::Setup& setup) = 0;
  // What else there is to say once SetUp has returned.
  virtual void FillReady(proto::Ready&) const {}
  // The GPU it computes on, as Device::identity, once SetUp has returned; empty: none.
  virtual std::string gpu() const { return ""; }
  // Any order but Setup and Stop. An error is the task's failure.
  virtual absl::Status Obey(const proto::ToTask& order) = 0;
  virtual void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) = 0;
  virtual int64_t step() const = 0;
};

// Blocks for the whole job. OK once the chief ended it well; Aborted when it ended it otherwise; else this
// task's own failure, which the chief has been told.
absl::Status LiveAsTask(const TaskOptions& options, TaskSession& session, const Clock& clock,
                        const std::string& data_address, TaskLife& life);

// Tells the chief how this task's part of a save went.
void SendSaveDone(TaskSession& session, int64_t save_id, const absl::Status& status);

// Tells the chief that this task has failed.
void SendFailure(TaskSession& session, const absl::Status& status, int64_t step);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_LIFE_H_
