// Turns a host file into the places of a job's processes, on machines that are ready for them. Called by the
// verbs that train; the launcher then runs the processes at these places.
//
// The chief runs on the machine that the roles assign to it. If the chief runs on another machine, the run
// directory is on that machine while the job runs, and is fetched at the end. Data is read on this machine,
// on the chief's machine and on each worker's machine, from the paths in the job. Blocks, with deadlines.
#ifndef TETHYS_DEPLOY_RUN_JOB_PLACES_H_
#define TETHYS_DEPLOY_RUN_JOB_PLACES_H_

#include <vector>

#include "deploy/flags/flags.h"
#include "deploy/process/place.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/host_file.h"

namespace tethys {

// Returns `flags` with the flags for PlaceJobs added: hostfile, ssh_config, bundle, tls and secrets.
std::vector<FlagSpec> WithClusterFlags(std::vector<FlagSpec> flags);

// Returns the places of each job, chosen by the host file that the flags name. Assigns roles, connects to
// every machine that any of the jobs uses, installs this build on machines that lack it, and checks that each
// machine has the data files and GPUs that the jobs need. Without --hostfile, all places are on this machine,
// and only GPUs are checked. FailedPrecondition names everything that is missing. Progress and warnings go to
// standard output.
absl::StatusOr<std::vector<Places>> PlaceJobs(const Flags& flags, const std::vector<proto::Job>& jobs);
// Like PlaceJobs above, but jobs may have their own hosts: if an element of `hosts` (one per job) is not
// empty, its lines replace the lines of the host file. The host file must name these hosts, too.
absl::StatusOr<std::vector<Places>> PlaceJobs(const Flags& flags, const std::vector<proto::Job>& jobs,
                                              const std::vector<std::vector<HostEntry>>& hosts);

// The number of cores that the processes on this machine share.
int CoresHere();

FlagSpec TlsFlag();
// True if the job's processes use TLS. Without --tls, they use TLS if --hostfile is given. InvalidArgument:
// --tls is neither on nor off.
absl::StatusOr<bool> WantsTls(const Flags& flags);

// Prints a line on standard output and flushes it.
void PrintLine(const std::string& line);

// FailedPrecondition: the hosts that the flags name have too few slots or GPUs for the job.
absl::Status CheckFitsHosts(const Flags& flags, const proto::Job& job);

// If the job has no price_per_hour, sets it to the sum of the prices of the hosts that the job would use. The
// sum is 0 (no price) if the host file has no price for one of these hosts.
absl::Status PriceByHosts(const Flags& flags, proto::Job& job);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_JOB_PLACES_H_
