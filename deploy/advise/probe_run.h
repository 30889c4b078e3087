// Probe runs of `tethys advise --probe_epochs=N`. Asynchronous and stale-synchronous training make other
// updates than the job, so they may need another number of samples for the same loss, and no prediction tells
// this number. A job of each of these kinds is trained for the first N epochs of the job, on its data, with
// its seed and its learning rates, and compared with the job itself by validation loss. Blocking;
// thread-compatible.
#ifndef TETHYS_DEPLOY_ADVISE_PROBE_RUN_H_
#define TETHYS_DEPLOY_ADVISE_PROBE_RUN_H_

#include <string>
#include <vector>

#include "deploy/advise/shaped_job.h"
#include "deploy/flags/flags.h"
#include "runtime/base/status.h"

namespace tethys {

// InvalidArgument: the job has no validation samples, does not train `epochs` epochs, or there are too few
// slots for asynchronous training.
absl::Status CheckProbes(const BaseJob& base, int epochs);

// Trains `jobs`, the first of which makes the job's own updates, and returns a table for the terminal. A run
// that fails gets a line with its error. Fails if the first run fails or the user interrupts. Also fails as
// PlaceJobs does.
absl::StatusOr<std::string> RunProbes(const Flags& flags, const std::vector<ShapedJob>& jobs, int epochs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_PROBE_RUN_H_
