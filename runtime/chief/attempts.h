// The attempts of one job: each --resume begins another, and the run's times and cost add up over all of
// them. Pure; any thread.
#ifndef TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_
#define TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_

#include "absl/types/optional.h"
#include "proto/checkpoint.pb.h"
#include "proto/plan.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

using Attempts = google::protobuf::RepeatedPtrField<proto::Attempt>;

// The attempts before one that resumes from `state`; updates beyond that state are not counted.
// `last_summary`, that of the last attempt, is preferred to the checkpoint, which was saved before that
// attempt ended; it is absent if the attempt left none.
Attempts EarlierAttempts(const proto::TrainingState& state,
                         const absl::optional<proto::RunSummary>& last_summary);

// An attempt that begins at `first_step` and has done nothing yet.
proto::Attempt NewAttempt(const proto::JobPlan& plan, int64_t first_step);

// The sum over all attempts, in seconds.
double TotalSeconds(const Attempts& attempts);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_
