// Probe runs of `tethys advise --probe_epochs=N`. Asynchronous and stale-synchronous training make other
// updates than synchronous training. So they may need more or fewer samples for the same loss, and no
// prediction tells how many. A probe trains the first N epochs of the job under one of these strategies, on
// the job's data, with the job's seed and learning rates. Its validation loss is compared with the validation
// loss of the job itself. Blocking; thread-compatible.
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

// Trains `jobs` and returns a table for the terminal. The first of `jobs` makes the same updates as the job
// itself. Fails if the run of the first job fails or the user interrupts. If another run fails, a line with
// its error follows the table. Also fails as PlaceJobs does.
absl::StatusOr<std::string> RunProbes(const Flags& flags, const std::vector<ShapedJob>& jobs, int epochs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_PROBE_RUN_H_
