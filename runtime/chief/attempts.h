// The attempts of one job: each --resume begins another attempt, and the run's times and cost add up over all
// attempts. Pure; any thread.
#ifndef TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_
#define TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "proto/checkpoint.pb.h"
#include "proto/plan.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

using Attempts = google::protobuf::RepeatedPtrField<proto::Attempt>;

// The attempts before the attempt that resumes from `state`. Their steps are cut at the step of `state`,
// because later steps are undone. `last_summary` is the summary of the last of these attempts; nullopt: that
// attempt left no summary. The attempts and their times come from `last_summary` if it lists at least as many
// attempts as `state`: the times in `state` are incomplete, because `state` was saved before the last attempt
// ended.
Attempts EarlierAttempts(const proto::TrainingState& state,
                         const absl::optional<proto::RunSummary>& last_summary);

// An attempt that begins at `first_step` and has done nothing yet.
proto::Attempt NewAttempt(const proto::JobPlan& plan, int64_t first_step);

// The sum of total_seconds over all attempts.
double TotalSeconds(const Attempts& attempts);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_
