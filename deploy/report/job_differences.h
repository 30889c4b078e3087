// The fields in which jobs differ, which a comparison shows with its results. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_JOB_DIFFERENCES_H_
#define TETHYS_DEPLOY_REPORT_JOB_DIFFERENCES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "proto/report.pb.h"

namespace tethys {

// The fields in which resolved jobs differ, with a value per job, in the order of proto/job.proto. Names and
// seeds are left out. If jobs chose different members of a oneof, the oneof itself is listed as a difference.
// A field of a member is compared only among the jobs that chose this member. A field of `tuning` is compared
// only among the jobs whose strategy uses this field. Empty for fewer than two jobs.
std::vector<proto::JobDifference> JobDifferences(absl::Span<const proto::Job> jobs);

// The differences that the jobs' names do not show, joined by "; ": "optimizer.learning_rate: 0.1 for B,
// 0.05 for all others". `names`: one per job. Empty if there are no such differences.
std::string DifferencesText(absl::Span<const proto::JobDifference> differences,
                            absl::Span<const std::string> names);

// A name per job, such as "3 mirrored workers" or "3 mirrored workers, batch 384": its strategy and processes
// and, if these are not distinct, every field in which jobs with this strategy and these processes differ.
// Jobs without a difference share a name.
std::vector<std::string> ShortNames(absl::Span<const proto::Job> jobs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_JOB_DIFFERENCES_H_
