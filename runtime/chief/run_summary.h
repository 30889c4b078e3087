// Parts of a run's summary. The part that is known before the run starts (job, strategy, build) is pure; the
// chief fills in the rest of the summary, or the launcher does if the chief was lost.
#ifndef TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
#define TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_

#include <string>

#include "proto/plan.pb.h"
#include "proto/summary.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_id.h"

namespace tethys {

proto::RunSummary SummaryOfPlan(const proto::JobPlan& plan);

// Fills in how the attempt ended, and a failure of the chief itself unless another failure came first.
void FillResult(const absl::Status& status, bool interrupted, proto::RunSummary& summary);

// The event that reports how the job ended. `culprit`: as in EndJob.
proto::ProgressEvent FinishedEvent(const absl::Status& status, TaskId culprit);

// Checks in the journal's file that every sample was used exactly once (DataLoss), and puts the result into
// the summary. OK if the journal cannot be read, because that does not show that the run used samples
// wrongly. `note`: a message for the user, or empty. Blocks on the file.
absl::Status CheckJournal(const std::string& path, const proto::JobPlan& plan, proto::RunSummary& summary,
                          std::string& note);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
