// Decides how the servers of a job on leases go on when one of them is lost, if their shards have copies
// (CopiesShards). The servers are halted, wait for the replacement, which takes its shards from the copy, and
// form a group with a generation of its own. Workers are not halted: they repeat unanswered messages until
// the servers serve again (proto::Servers says where). Pure; owned by JobController. In lock step servers are
// members of the workers' groups instead (group_membership.h).
//
//   kFormed  --Halt: a server is lost--> kHalting
//   kHalting --Proceed: all have answered, and the replacement is ready--> kForming
//   kForming --OnFormed: all have joined the group--> kFormed
//   kForming --Halt: a server is lost, or its exchange of copies failed--> kHalting
//
// A server answers and reports a push only when the copy contains the push (ps/copied_pushes.h). So a
// replacement lacks no push that counts, and only reports some of them again (IsNew).
#ifndef TETHYS_RUNTIME_CHIEF_SERVER_MEMBERSHIP_H_
#define TETHYS_RUNTIME_CHIEF_SERVER_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/chief/roster.h"

namespace tethys {

class ServerMembership {
 public:
  enum class Stage { kFormed, kHalting, kForming };

  // A silent server is given up so much later if the server with its copy is silent, too.
  static constexpr Nanoseconds kHolderPatience = 20 * kSecond;
  // If exchanges of copies fail more often than this without a loss in between, the job ends.
  static constexpr int kMostFailures = 3;

  // `plan` and `roster` must outlive this object.
  ServerMembership(const proto::JobPlan& plan, Roster& roster);

  // True if the job has such groups. If false, the job does not use this object.
  bool active() const { return active_; }
  Stage stage() const { return stage_; }
  bool formed() const { return stage_ == Stage::kFormed; }

  // ---- events

  // The server is lost; `text` describes the loss for the user.
  void OnLost(TaskId server, const std::string& text);
  // The server has left its newest group.
  void OnHalted(TaskId server, const proto::Halted& halted);
  // The server has answered its newest Form. Returns true if the group has now formed.
  bool OnFormed(TaskId server);
  // True if the server, or a lost process of it, has not reported this push before.
  bool IsNew(TaskId server, const proto::AppliedPush& push);

  // ---- decisions

  // True if the group cannot stay together: a server is lost, or has left the group.
  bool broken() const;
  // Halts the group. Requires kFormed or kForming.
  void Halt(Nanoseconds now, Actions& actions);
  // While halting: forms the next group once all servers have answered and are ready. `replaced`: a lost task
  // will be replaced. `fences`: Form.fence. `patience`: how long a replacement may take. Unavailable: a
  // server and its copy are lost, or a lost server is not replaced.
  absl::Status Proceed(bool replaced, const std::vector<proto::Fence>& fences, Nanoseconds patience,
                       Nanoseconds now, Actions& actions);
  // True if the server, one of the `silent` tasks, is not given up yet (kHolderPatience).
  bool Spared(TaskId server, const std::vector<TaskId>& silent, Nanoseconds silence, Nanoseconds now) const;
  // A server that has not answered its last Halt for `to_leave`, or its last Form for `to_join`, although it
  // still sends messages.
  absl::optional<TaskGivenUp> Overdue(Nanoseconds to_leave, Nanoseconds to_join, Nanoseconds now) const;

  // The last lost server, which is to blame if the job cannot go on; its role is unknown if none was lost.
  TaskId last_lost() const { return last_lost_; }

  void Save(proto::ServerMembershipState& state) const;
  // InvalidArgument: no job can be in this state.
  absl::Status Restore(const proto::ServerMembershipState& state);

 private:
  using Push = std::pair<uint32_t, int64_t>;  // Incarnation and sequence of a worker's push.
  struct Part {
    bool has_values = true;             // False: the server has yet to take its shards from their copy.
    bool halted = false;                // The server has left its newest group.
    bool has_copy = false;              // A halted server: it has a copy of another server's shards.
    Nanoseconds asked = 0;              // The time of the unanswered Halt or Form; 0: none.
    std::map<int, Push> reported = {};  // The last push of each worker.
  };

  Part& at(TaskId server) { return parts_[server.index]; }
  const Part& at(TaskId server) const { return parts_[server.index]; }
  absl::Status Lost(const std::string& why) const;

  const bool active_;
  const proto::Placement placement_;
  Roster& roster_;

  Stage stage_ = Stage::kFormed;
  uint32_t generation_;
  std::vector<Part> parts_;        // By index.
  Nanoseconds waiting_since_ = 0;  // When the last formed group was halted.
  TaskId last_lost_;
  int failures_ = 0;                // Failed exchanges of copies since the last loss.
  std::string loss_text_, reason_;  // The last loss; the last failed exchange.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_SERVER_MEMBERSHIP_H_
