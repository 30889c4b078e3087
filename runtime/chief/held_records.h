// Holds the step records of a group in lock step until it is certain that their steps are not made again. A
// record says that one worker has applied a step. If the group then loses this worker, the other workers may
// lack the step, and the next group makes the step again. So a step does not count as soon as one worker has
// recorded it. A step counts
//
//   1. when every worker of the group has recorded it, because then no worker can lack it; or
//   2. when a group has formed whose parameters contain it, because later groups continue from these
//   parameters.
//
// In the second case the records of a lost worker may be missing. Records of pushes that servers have applied
// are held in the same way. If the shards of servers have copies, a lost server may leave pushes unreported
// that its copy contains; these are known from the steps that count. Pure; owned by JobController.
#ifndef TETHYS_RUNTIME_CHIEF_HELD_RECORDS_H_
#define TETHYS_RUNTIME_CHIEF_HELD_RECORDS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_id.h"

namespace tethys {

struct HeldRecord {
  proto::StepRecord record;
  Nanoseconds clock_offset = 0;  // The chief's clock minus the worker's, when the record arrived.
};

// A step that counts, with one record for each worker of the group, by rank. A record that was lost is
// absent.
struct CountedStep {
  struct Part {
    int worker = 0;  // The worker's index.
    absl::optional<HeldRecord> held;
  };
  int64_t step = 0;
  std::vector<Part> part;
};

// A server's record of an applied push. The push counts once push.version() steps count.
struct HeldPush {
  int server = 0;
  proto::AppliedPush push;
};

// Invariant: the records that are held for a worker belong to consecutive steps, beginning with step next().
class HeldRecords {
 public:
  // From now on, holds the records of a group of these workers, whose first step is `step`. Discards the
  // records of `step` and later steps, because the group makes these steps again.
  void Open(const std::vector<TaskId>& workers, int64_t step);

  // Holds a record. A record of a worker outside the group has no effect. InvalidArgument: the record does
  // not belong to the worker's next step.
  absl::Status Add(TaskId worker, const HeldRecord& held);

  // Holds the record of a push.
  void AddPush(int server, const proto::AppliedPush& push) { pushes_.push_back({server, push}); }
  // Removes and returns the records of pushes that count, in the order of their arrival.
  std::vector<HeldPush> TakePushes();
  // Notes a push of a step that counts, which each of `servers` servers will report. Requires that
  // push.version() is at most next(), and that TakePushes has not returned a record of the push.
  void NoteCounted(const proto::AppliedPush& push, int servers);
  // The noted pushes that this server has not reported. From now on they count as reported.
  std::vector<HeldPush> TakeUnreported(int server);

  // The first step that does not count yet.
  int64_t next() const { return next_; }
  // The number of steps that count or that at least one worker has recorded.
  int64_t newest() const;
  // Removes and returns step next() if every worker of the group has recorded it; otherwise returns nullopt.
  absl::optional<CountedStep> TakeComplete();
  // Removes and returns step next(), even if some workers have not recorded it.
  CountedStep Take();

  void Save(proto::HeldState& state) const;
  // `servers`: the number of servers with shards. InvalidArgument: the invariant is broken, or a record is of
  // a task that the job does not have.
  absl::Status Restore(const proto::HeldState& state, int workers, int servers);

 private:
  int64_t next_ = 0;
  std::map<int, std::deque<HeldRecord>> held_;  // The key is the worker's index.
  std::vector<HeldPush> pushes_;

  struct Noted {
    proto::AppliedPush push;
    std::set<int> reported;  // The servers that have reported the push.
  };
  void Report(int server, int64_t version, int worker);
  int reporting_ = 0;                               // The number of servers that report a noted push.
  std::map<std::pair<int64_t, int>, Noted> noted_;  // By version and worker, until all have reported it.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_HELD_RECORDS_H_
