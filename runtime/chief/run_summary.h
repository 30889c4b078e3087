// The part of a run's summary that is known before the run starts: job, strategy, build. The chief fills in
// the rest; the launcher fills it in if the chief was lost. Pure.
#ifndef TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
#define TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_

#include "proto/plan.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

proto::RunSummary SummaryOfPlan(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
