// A worker process: joins the chief, builds its replica, then trains, evaluates and saves by the chief's
// orders.
#ifndef TETHYS_WORKERS_WORKER_PROCESS_H_
#define TETHYS_WORKERS_WORKER_PROCESS_H_

#include "runtime/base/status.h"
#include "runtime/cluster/task_options.h"

namespace tethys {

// Blocks until the job ends. Returns OK if the chief ended the job without failure. A failure is reported to
// the chief before RunWorker returns.
absl::Status RunWorker(const TaskOptions& options);

}  // namespace tethys

#endif  // TETHYS_WORKERS_WORKER_PROCESS_H_
