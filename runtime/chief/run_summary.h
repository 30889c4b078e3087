// The part of a run's summary that is known before it runs: job, strategy, build. The chief starts its
// summary from it, and so does the launcher when it writes one for a chief that was lost. Pure.
#ifndef TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
#define TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_

#include "proto/plan.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

proto::RunSummary SummaryOfPlan(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
