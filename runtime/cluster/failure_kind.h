// Which failures of a process another one in its place may not meet. Asked by the chief about what workers
// report, and by a worker for its exit status. Pure, thread-safe.
#ifndef TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_
#define TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_

#include "runtime/base/status.h"

namespace tethys {

// True: something befell this process or its host (a broken connection, no answer in time, a full host, a
// device that failed). A job that survives the loss of workers then goes on without it. False: what it was
// given is refused (a value that is not finite, another model, a missing file), or it was told to end; any
// other worker would say the same.
bool MayBefallOneProcess(const absl::Status& status);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_
