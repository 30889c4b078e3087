// Which epoch is best on the validation split (checkpoint.keep_best). Pure; belongs to the controller.
#ifndef TETHYS_RUNTIME_CHIEF_BEST_EPOCH_H_
#define TETHYS_RUNTIME_CHIEF_BEST_EPOCH_H_

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// The epoch is better than the best so far, which the state then names in its place. Of equal ones the first
// stays; a value that is not a number is never best.
bool NoteIfBest(proto::Monitor monitor, const proto::EpochResult& result, proto::TrainingState& state);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_BEST_EPOCH_H_
