// Actions: commands that the chief's pure classes return as values. The chief's process carries them out in
// order.
#ifndef TETHYS_RUNTIME_CHIEF_CHIEF_ACTIONS_H_
#define TETHYS_RUNTIME_CHIEF_CHIEF_ACTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/variant.h"
#include "proto/chief.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/moving_statistics.h"
#include "runtime/cluster/task_id.h"

namespace tethys {

struct SendOrder {
  TaskId task;
  proto::ToTask order;
};
struct WriteJournal {
  std::string line;
};
struct Report {
  proto::ProgressEvent event;
};
struct KeepRecords {  // Records of one worker for steps.csv and the timing analysis.
  proto::StepRecords records;
  Nanoseconds clock_offset = 0;
  // If the workers train in lock step: the number of workers that together made each of these steps. 0: all
  // workers of the plan.
  int workers = 0;
};
struct KeepResources {  // Samples for resources.csv and the summary.
  TaskId task;
  std::string host;
  google::protobuf::RepeatedPtrField<proto::ResourceSample> samples;
  Nanoseconds clock_offset = 0;
};
struct OpenSave {  // Opens a new checkpoint; the result goes to JobController::SaveOpened.
  int64_t id = 0;
  proto::TrainingState state;
  MovingStatistics statistics;
};
struct CommitSave {};  // Commits the open checkpoint; the result goes to SaveCommitted.
struct AbandonSave {};
struct EndJob {  // The last action of a job.
  absl::Status status;
  TaskId culprit;  // The task that failed. Its role is ROLE_UNKNOWN if no single task failed.
};
using Action = absl::variant<SendOrder, WriteJournal, Report, KeepRecords, KeepResources, OpenSave,
                             CommitSave, AbandonSave, EndJob>;
using Actions = std::vector<Action>;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_ACTIONS_H_
