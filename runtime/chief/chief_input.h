// The inputs of a JobController as records (proto/chief_log.proto). A new controller of the same plan that is
// given the same records, in the same order, reaches the same state and returns the same actions.
#ifndef TETHYS_RUNTIME_CHIEF_CHIEF_INPUT_H_
#define TETHYS_RUNTIME_CHIEF_CHIEF_INPUT_H_

#include <string>

#include "proto/chief_log.pb.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/job_controller.h"
#include "runtime/cluster/task_id.h"

namespace tethys {

// Gives the record to the controller. Returns the controller's answer to `admit`, and OK for all other
// inputs. `host`: the name of the chief's machine. `input`: the number of records before this one.
absl::Status GiveInput(const proto::ChiefRecord& record, const std::string& host, JobController& controller,
                       Actions& actions);

proto::ChiefRecord AdmitInput(TaskId task, uint32_t incarnation);
proto::ChiefRecord MessageInput(TaskId task, uint32_t incarnation, proto::FromTask message);
proto::ChiefRecord GoneInput(TaskId task, uint32_t incarnation);
proto::ChiefRecord SaveOpenedInput(const absl::Status& status);
proto::ChiefRecord SaveCommittedInput(const absl::Status& status, const std::string& directory);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_INPUT_H_
