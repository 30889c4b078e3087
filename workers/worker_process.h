// A worker: joins the chief, builds what the job needs, then trains, evaluates and saves as it is told.
#ifndef TETHYS_WORKERS_WORKER_PROCESS_H_
#define TETHYS_WORKERS_WORKER_PROCESS_H_

#include "runtime/base/status.h"
#include "runtime/cluster/task_options.h"

namespace tethys {

// Blocks for the whole job. OK when the chief ended it well. A failure has been told to the chief when this
// returns.
absl::Status RunWorker(const TaskOptions& options);

}  // namespace tethys

#endif  // TETHYS_WORKERS_WORKER_PROCESS_H_
