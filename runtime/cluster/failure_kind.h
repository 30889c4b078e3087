// Tells failures of one process or host from failures that any process in its place would have. Used by the
// chief for failures that workers report, and by a worker for its exit status. Pure, thread-safe.
#ifndef TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_
#define TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_

#include "runtime/base/status.h"

namespace tethys {

// True: the failure may be of this process or its host alone (a broken connection, no answer in time, a full
// host, a device that failed). A job that survives the loss of workers then continues without it. False: its
// input was refused (a non-finite value, another model, a missing file), or it was told to end; any other
// worker would fail in the same way.
bool MayBefallOneProcess(const absl::Status& status);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_
