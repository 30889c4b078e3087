// Workers that are lost while the others go on (docs/design.md, When a worker is lost): tells servers to
// refuse what a lost one still sends, finds out what became of the batches it held, and lets a replacement
// in. Pure; belongs to the controller, which knows when each of these is due.
//
//   Lose -> Fence ... OnFenced: kLostIsFenced -> Settle           the others go on meanwhile
//   a replacement is ready -> Enrol ... OnFenced: kEnrolled -> TakesPart
#ifndef TETHYS_RUNTIME_CHIEF_WORKER_LOSSES_H_
#define TETHYS_RUNTIME_CHIEF_WORKER_LOSSES_H_

#include <map>
#include <string>

#include "proto/chief.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/clock.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/roster.h"
#include "runtime/chief/running_segment.h"

namespace tethys {

class WorkerLosses {
 public:
  // All outlive it.
  WorkerLosses(const proto::JobPlan& plan, Roster& roster, RunningSegment& segment, Nanoseconds started)
      : plan_(plan), roster_(roster), segment_(segment), started_(started) {}

  // From now on nothing that worker says is heard. `text`: the loss in a sentence. Returns whether another is
  // to take its place.
  bool Lose(TaskId id, const std::string& reason, const std::string& text, Nanoseconds now, Actions& actions);

  // Asks all servers to refuse the frames of the lost incarnation,
  void Fence(TaskId id, Actions& actions);
  // or to wait for its replacement from the next round on.
  void Enrol(TaskId id, Actions& actions);

  enum class Answer { kNotYet, kLostIsFenced, kEnrolled };
  // Other than kNotYet: all servers have answered what was asked last of that worker.
  Answer OnFenced(const proto::Fenced& fenced);

  // What it held goes by what the servers applied: used, torn, or free again.
  void Settle(TaskId id, Actions& actions);
  void TakesPart(TaskId id, Nanoseconds now, Actions& actions);

  // Servers have not answered yet what was asked about this worker; about any lost one.
  bool asking(TaskId id) const;
  bool settling() const;
  // The last loss; 0: none.
  Nanoseconds last() const { return last_; }
  void FillSummary(proto::RunSummary& summary) const { *summary.mutable_worker_loss() = losses_; }

 private:
  // Of one worker, about its loss or its replacement.
  struct Question {
    proto::Fence fence;
    int unanswered = 0;  // By so many servers.
    Nanoseconds lost_at = 0;
  };

  void Ask(TaskId id, bool takes_part, Actions& actions);
  void SendToServers(proto::Fence& fence, Actions& actions);  // With the clock as it is.
  proto::WorkerLoss& LastOf(TaskId id);

  const proto::JobPlan& plan_;
  Roster& roster_;
  RunningSegment& segment_;
  const Nanoseconds started_;

  std::map<TaskId, Question> questions_;
  google::protobuf::RepeatedPtrField<proto::WorkerLoss> losses_;
  Nanoseconds last_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_WORKER_LOSSES_H_
