// Distinguishes failures of one process or host from failures that any other process would have, too. The
// chief uses this distinction for the failures that workers report; a worker uses it for its exit status.
// Pure, thread-safe.
#ifndef TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_
#define TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_

#include "runtime/base/status.h"

namespace tethys {

// True if the failure may concern this process or its host alone (a broken connection, no answer in time, a
// full disk or memory, a device that failed). A job that survives the loss of workers then continues without
// this process. False if the process's input was refused (a non-finite value, another model, a missing file)
// or the chief ended the process: any other worker would fail in the same way.
bool MayBefallOneProcess(const absl::Status& status);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_FAILURE_KIND_H_
