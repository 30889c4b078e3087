// A worker process: joins the chief, builds its replica, then trains, evaluates and saves by the chief's
// orders.
#ifndef TETHYS_WORKERS_WORKER_PROCESS_H_
#define TETHYS_WORKERS_WORKER_PROCESS_H_

#include <memory>

#include "collectives/ring_communicator.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_life.h"
#include "runtime/cluster/task_options.h"
#include "workers/device_factory.h"
#include "workers/worker_course.h"

namespace tethys {

// Blocks until the job ends. Returns OK if the chief ended the job without failure. A failure is reported to
// the chief before RunWorker returns.
absl::Status RunWorker(const TaskOptions& options);

// The life of a worker, for LiveAsTask: all of RunWorker but the session. All arguments but `make_device`
// must outlive the returned object.
std::unique_ptr<TaskLife> CreateWorkerLife(const TaskOptions& options, TaskSession& session,
                                           RingListener& listener, const Clock& clock, WorkerCourse& course,
                                           OrderReader& orders, MakeDevice make_device = CreateWorkerDevice);

}  // namespace tethys

#endif  // TETHYS_WORKERS_WORKER_PROCESS_H_
