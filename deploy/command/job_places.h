// From a host file to the places of a job's processes, on machines that are ready for them. Called by the
// verbs that train; what then happens to the processes is the launcher's, which cannot tell places apart.
//
// The chief runs on the machine that the roles name for it. Where that is another machine than this one, its
// run directory is there while the job runs, and is fetched at the end. Data is read on each worker's machine
// and on this one, from the paths in the job. Blocks, under deadlines.
#ifndef TETHYS_DEPLOY_COMMAND_JOB_PLACES_H_
#define TETHYS_DEPLOY_COMMAND_JOB_PLACES_H_

#include <vector>

#include "deploy/command/flags.h"
#include "deploy/process/place.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// `flags` and those of PlaceJobs: hostfile, ssh_config, bundle and tls.
std::vector<FlagSpec> WithClusterFlags(std::vector<FlagSpec> flags);

// The places of each job, by the host file that the flags name: roles assigned, and every machine that any of
// the jobs uses reached, given this build where it lacks it, and asked for the data files and GPUs that the
// jobs need of it. Without --hostfile: all on this machine, which is asked for GPUs alone. FailedPrecondition
// names everything that is lacking. Progress and warnings go to standard output.
absl::StatusOr<std::vector<Places>> PlaceJobs(const Flags& flags, const std::vector<proto::Job>& jobs);

// To standard output, at once.
void PrintLine(const std::string& line);

// Gives a job without price_per_hour that of the hosts it would use, where the host file knows all of theirs.
absl::Status PriceByHosts(const Flags& flags, proto::Job& job);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_JOB_PLACES_H_
