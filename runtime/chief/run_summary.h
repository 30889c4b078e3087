// What a run's summary says before anything has run: which job, under which strategy, made by which build.
// The chief begins its summary with it, and so does whoever writes one in place of a chief that no longer
// could. Pure.
#ifndef TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
#define TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_

#include "proto/chief.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

proto::RunSummary SummaryOfPlan(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RUN_SUMMARY_H_
