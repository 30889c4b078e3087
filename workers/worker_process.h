// A worker process: joins the chief, builds its replica, then trains, evaluates and saves by the chief's
// orders.
#ifndef TETHYS_WORKERS_WORKER_PROCESS_H_
#define TETHYS_WORKERS_WORKER_PROCESS_H_

#include "runtime/base/status.h"
#include "runtime/cluster/task_options.h"

namespace tethys {

// Blocks for the whole job. OK: the chief ended it without failure. A failure has been reported to the chief
// when this returns.
absl::Status RunWorker(const TaskOptions& options);

}  // namespace tethys

#endif  // TETHYS_WORKERS_WORKER_PROCESS_H_
