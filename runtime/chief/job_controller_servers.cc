// JobController's functions for jobs on leases whose servers have copies of their shards
// (server_membership.h).
//
//   a server is lost --> a save in progress is abandoned, and the servers are halted
//   the servers have formed a group --> workers learn where the servers are; the save is made again
//
// The stages of training and evaluating go on meanwhile: their workers wait for answers of the servers. No
// stage begins until the servers have formed a group (Continue).
#include <utility>

#include "runtime/chief/job_controller.h"

namespace tethys {

// Halts the servers if one of them is lost, and lets them form the next group once this is possible. Called
// whenever one of these conditions may have changed.
void JobController::RegroupServers(Nanoseconds now, Actions& actions) {
  if (!servers_.active() || !course_.training_begun() || course_.ending() || failure_.any()) return;
  if (servers_.stage() != ServerMembership::Stage::kHalting) {
    if (!servers_.broken()) return;
    if (course_.phase() == JobPhase::kSave) {
      // While a save is being opened or committed, it needs no server. It is completed first.
      if (checkpoints_.state() != CheckpointCoordinator::State::kWriting) return;
      checkpoints_.Abandon(now, actions);
      course_.Regroup(/*in_segment=*/false, /*saves=*/true);
    }
    servers_.Halt(now, actions);
  }
  const absl::Status status =
      servers_.Proceed(losses_.awaits_replacement(proto::PS), losses_.Fences(), start_timeout_, now, actions);
  if (!status.ok()) Fail(status, servers_.last_lost(), now);
}

void JobController::ServersFormed(Nanoseconds now, Actions& actions) {
  for (const TaskId id : roster_.Present(proto::PS)) {
    if (losses_.Awaited(id)) losses_.Replaced(id, now, actions);
  }
  // Servers that were halted, or lost, have not answered.
  losses_.AskAgain(actions);
  proto::ToTask order;
  for (const TaskId id : roster_.Present(proto::PS)) {
    *order.mutable_servers()->add_server() = roster_.at(id).member;
  }
  for (const auto& [id, task] : roster_.tasks()) {
    if (id.role != proto::WORKER || task.lost) continue;
    if (task.generation != 0) {
      Send(id, order, actions);
    } else if (task.joined && !losses_.asking(id)) {
      SetUp({id}, now, actions);
    }
  }
  if (course_.phase() == JobPhase::kRegroup) Continue(now, actions);
}

}  // namespace tethys
