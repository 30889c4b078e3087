// A parameter server as a process of a job: joins the chief, serves workers, saves checkpoints on the chief's
// order.
#ifndef TETHYS_PS_SERVER_PROCESS_H_
#define TETHYS_PS_SERVER_PROCESS_H_

#include <memory>

#include "ps/parameter_server.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_life.h"
#include "runtime/cluster/task_options.h"

namespace tethys {

// Blocks for the whole job. OK if the chief ended the job without a failure. An error has been reported to
// the chief when this returns.
absl::Status RunParameterServer(const TaskOptions& options);

// Creates the functions that LiveAsTask (runtime/cluster/task_life.h) calls in the process of a parameter
// server. The arguments must outlive the result.
std::unique_ptr<TaskLife> CreateServerLife(const TaskOptions& options, TaskSession& session,
                                           ParameterServer& server);

}  // namespace tethys

#endif  // TETHYS_PS_SERVER_PROCESS_H_
