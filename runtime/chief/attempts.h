// The starts of one job, told apart: --resume begins another attempt, and what the earlier ones did and took
// counts for the run's times and cost. Pure; any thread.
#ifndef TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_
#define TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

using Attempts = google::protobuf::RepeatedPtrField<proto::Attempt>;

// Those before one that goes on from `state`, with the updates that it stands on. The summary of the last one
// counts more than the checkpoint, which was saved before that attempt ended; absent: there is none.
Attempts EarlierAttempts(const proto::TrainingState& state,
                         const absl::optional<proto::RunSummary>& last_summary);

// One that begins at `first_step` and has done nothing yet.
proto::Attempt NewAttempt(const proto::JobPlan& plan, int64_t first_step);

// In seconds, over all.
double TotalSeconds(const Attempts& attempts);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_ATTEMPTS_H_
