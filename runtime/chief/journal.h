// RUN_DIR/journal records what happened to the members and to every sample, as lines of text that are
// appended while the job runs. A resumed job appends another attempt; the checker (journal_check.h) reads all
// attempts. A last line without its newline was cut off by a crash and does not count.
//
//   attempt STEP EPOCH POSITION SAMPLES WORKERS SERVERS STRATEGY
//                                           the attempt's starting state; SAMPLES: positions per epoch
//   member ROLE INDEX INCARNATION HOST ADDRESS
//   lost ROLE INDEX REASON...
//   group GENERATION STEP WORKER...         these workers formed a group, with the parameters of STEP steps
//   lease WORKER EPOCH BEGIN END            a worker was leased positions [BEGIN, END) of the epoch
//   used WORKER STEP BEGIN COUNT            a worker trained on samples [BEGIN, BEGIN + COUNT)
//   applied SERVER WORKER SEQUENCE BEGIN COUNT VERSION
//                                           a server applied that worker's gradients of these samples;
//                                           SEQUENCE 0: the server was lost before it had reported this
//                                           (held_records.h)
//   torn WORKER BEGIN COUNT SERVER...       a worker was lost during a push, which only these servers applied
//   epoch EPOCH END                         all positions [0, END) of the epoch are used
//   saved STEP EPOCH POSITION               a checkpoint is committed
//   end EPOCH POSITION                      the job succeeded and ended at this position
//
// BEGIN of `used`, `applied` and `torn` is a position over the whole job: epoch x SAMPLES + position.
#ifndef TETHYS_RUNTIME_CHIEF_JOURNAL_H_
#define TETHYS_RUNTIME_CHIEF_JOURNAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/member.pb.h"
#include "runtime/cluster/task_id.h"

namespace tethys::journal {

inline constexpr char kFileName[] = "journal";

// Each function returns one line with its newline. `epoch_length`: the number of positions in an epoch's
// sample order.
std::string Attempt(const proto::TrainingState& start, int64_t epoch_length, int workers, int servers,
                    const std::string& strategy);
std::string Member(const proto::Member& member);
std::string Lost(proto::Role role, int index, const std::string& reason);
std::string Group(uint32_t generation, int64_t step, const std::vector<TaskId>& workers);
std::string Lease(int worker, int64_t epoch, int64_t begin, int64_t end);
std::string Used(int worker, int64_t step, int64_t begin, int64_t count);
std::string Applied(int server, const proto::AppliedPush& push);
// `begin` is a position over the whole job.
std::string Torn(int worker, int64_t begin, int64_t count, const std::vector<int>& servers);
std::string EpochDone(int64_t epoch, int64_t end);
std::string Saved(const proto::TrainingState& state);
std::string End(const proto::TrainingState& state);

}  // namespace tethys::journal

#endif  // TETHYS_RUNTIME_CHIEF_JOURNAL_H_
