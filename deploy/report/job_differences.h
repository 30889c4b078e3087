// In which fields jobs differ: what a comparison must say beside its results. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_JOB_DIFFERENCES_H_
#define TETHYS_DEPLOY_REPORT_JOB_DIFFERENCES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "proto/report.pb.h"

namespace tethys {

// The fields in which resolved jobs are unlike, with a value per job, in the order of proto/job.proto. Names
// and seeds are left out. A field of a oneof's member is compared among the jobs that chose this member; the
// choice itself is a difference of the oneof. Empty for fewer than two jobs.
std::vector<proto::JobDifference> JobDifferences(absl::Span<const proto::Job> jobs);

// "optimizer.learning_rate: 0.1 in PS async, 0.05 in all others", joined by "; ": the differences that the
// jobs' names do not say. `names`: by job. Empty: there are none.
std::string DifferencesText(absl::Span<const proto::JobDifference> differences,
                            absl::Span<const std::string> names);

// A name per job: its strategy, and of the fields in which jobs of this strategy differ as many as it takes:
// "mirrored", "PS async, batch 384". Jobs that differ in nothing share a name.
std::vector<std::string> ShortNames(absl::Span<const proto::Job> jobs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_JOB_DIFFERENCES_H_
