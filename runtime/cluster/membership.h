// The membership of a job: the tasks that take part, the numbers that distinguish them, and the division of
// samples and parameters among them. The chief owns the membership and decides on changes; other tasks
// receive the members as a proto::Group and find their ranks in it (group_place.h). Pure; a Membership is
// never changed: each change is a function that returns a new Membership, or an error.
//
//   index        the name of a task for its whole life, in certificates, logs and the choice of GPUs
//   incarnation  number of the process of an index; 0: none has joined yet
//   rank         position of a member among the members of its role, by index, from 0 without gaps
//   generation   number of the membership, in every handshake and frame
//
//   In this example, g1 stands for generation 1, and w0 for worker 0.
//
//   Membership::Of(plan)                          g1 w0 w1 w2
//   first.Remove({proto::WORKER, 1})              g2 w0 w2, where w2 has rank 1 and the second half of a step
//   second.Add({proto::WORKER, 1}, 2)             g3 w0 w1 w2
#ifndef TETHYS_RUNTIME_CLUSTER_MEMBERSHIP_H_
#define TETHYS_RUNTIME_CLUSTER_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "proto/chief_state.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_id.h"

namespace tethys {

// Invariants:
// 1. The generation grows by one with every change that all members must learn before they go on: any change
// of a membership in lock step, or of the placement. If workers train on leases, a new process of a task does
// not change the generation: servers are told to accept or refuse (fence) the frames of a worker, and servers
// have groups of their own (runtime/chief/server_membership.h). When the first process of a member joins, the
// generation does not change either.
// 2. The incarnations of an index grow: a process that was removed or replaced does not return.
// 3. Every shard is placed on a member.
// 4. A membership in lock step has a worker.
class Membership {
 public:
  // The most changes of a job's membership. The generation's lower bits count memberships; the upper bits are
  // reserved for the number of the chief.
  static constexpr uint32_t kMostChanges = 0xffff;
  // The generation of the membership with which a job begins.
  static constexpr uint32_t kFirstGeneration = 1;

  // The membership with which a job begins: every task of the plan is a member, but none of its processes has
  // joined.
  static Membership Of(const proto::JobPlan& plan);

  // The functions below return a changed membership. InvalidArgument: the job has no such task.
  // FailedPrecondition: an invariant would break, the task is a member already (Add) or is not a member
  // (Remove, Replace), the number of workers must not change because samples are sharded over the workers, or
  // there were kMostChanges changes.
  absl::StatusOr<Membership> Add(TaskId task, uint32_t incarnation) const;
  absl::StatusOr<Membership> Remove(TaskId task) const;
  // Replaces the process of a member by a new process, whose incarnation is `incarnation`.
  absl::StatusOr<Membership> Replace(TaskId task, uint32_t incarnation) const;
  // The next group of a membership in lock step: exactly the workers among `tasks`, and all servers. The
  // processes of these workers, and of the servers among `tasks`, have the given incarnations. The generation
  // grows even if no member changes, because a group whose exchange has failed is never used again.
  absl::StatusOr<Membership> Regroup(const std::map<TaskId, uint32_t>& tasks) const;
  // Places the same shards on other servers. A server must be added before it gets shards, and can be removed
  // only when it has no shards.
  absl::StatusOr<Membership> Place(const proto::Placement& placement) const;

  uint32_t generation() const { return generation_; }
  // True if workers train on leases. Such workers join and leave one by one.
  bool leased() const { return leased_; }
  bool Has(TaskId task) const;
  // The members of a role, by rank.
  std::vector<TaskId> Members(proto::Role role) const;
  int Count(proto::Role role) const { return static_cast<int>(Members(role).size()); }
  // Requires that `task` is a member.
  int RankOf(TaskId task) const;
  // The incarnation of the newest process of `task`, even if that process was removed; 0: no process has
  // joined. Requires a task of the job.
  uint32_t IncarnationOf(TaskId task) const { return seats_.at(task).incarnation; }
  const proto::Placement& placement() const { return *placement_; }

  // shares() is the number of shares into which samples are split, and ShareOf is the index of a worker's
  // share. In lock step a share is a worker's part of each step, by rank. On leases there is a share for each
  // worker of the plan, by index: the shares of workers that take no part go to other workers
  // (runtime/chief/lease_book.h).
  int shares() const;
  int ShareOf(TaskId worker) const { return leased_ ? worker.index : RankOf(worker); }

  void Save(proto::MembershipState& state) const;
  // Reads a membership that Save wrote, for the same plan. InvalidArgument: an invariant is broken.
  static absl::StatusOr<Membership> Restore(const proto::JobPlan& plan, const proto::MembershipState& state);

 private:
  struct Seat {
    bool member = false;
    uint32_t incarnation = 0;
  };

  Membership() = default;
  absl::Status CheckTask(TaskId task) const;
  absl::Status CheckNewer(TaskId task, uint32_t incarnation) const;
  absl::Status CheckResize(TaskId task) const;  // FailedPrecondition: the role's number of tasks is fixed.
  absl::Status CheckPlaces() const;
  // Returns a copy for a change that concerns `task`. If members must learn of the change, the copy has the
  // next generation.
  absl::StatusOr<Membership> Next(TaskId task) const;
  absl::StatusOr<Membership> NextGeneration() const;

  bool leased_ = false;
  bool sharded_ = false;
  int workers_ = 0;  // The number of workers in the plan.
  uint32_t generation_ = kFirstGeneration;
  std::map<TaskId, Seat> seats_;  // Every task of the plan.
  std::shared_ptr<const proto::Placement> placement_;
  bool moved_ = false;  // True: the placement differs from the placement in the plan.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_MEMBERSHIP_H_
