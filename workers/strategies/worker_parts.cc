#include "workers/strategies/worker_parts.h"

#include <string>
#include <utility>

#include "collectives/job_authenticator.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/staged_strategy.h"

namespace tethys {

std::string MemberName(const proto::Member& member) {
  return absl::StrCat(TaskName(member.role(), member.index()), " on ", member.host());
}

absl::StatusOr<RingOptions> RingOf(const WorkerParts& worker) {
  const TaskOptions& task = worker.task;
  RingOptions ring;
  ring.rank = worker.place.rank;
  for (const proto::Member& member : worker.group.member()) {
    if (member.role() != proto::WORKER) continue;
    ring.members.push_back({.address = member.data_address(),
                            .name = MemberName(member),
                            .certificate = CertificateName(member.role(), member.index())});
  }
  ring.group = 1;
  ring.generation = worker.group.generation();
  ring.incarnation = task.incarnation;
  if (task.tls.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(ring.tls, TlsContext::Create(*task.tls));
  }
  proto::Handshake identity;
  identity.set_role(proto::WORKER);
  identity.set_job_id(worker.plan.job_id());
  identity.set_job_hash(worker.plan.job_hash());
  identity.set_model_signature(worker.plan.model_signature());
  ring.authenticator = CreateJobAuthenticator(task.token, std::move(identity));
  ring.connect_timeout = worker.TimeLeft();
  ring.step_timeout = worker.step_timeout();
  ring.peers_compute = worker.peers_compute;
  ring.clock = &worker.clock;
  ring.interruption = worker.handover.interruption;
  return ring;
}

absl::StatusOr<ReplicaUpdate> UpdateOf(const WorkerParts& worker) {
  return ReplicaUpdate::Create(worker.job().optimizer(), TrainableRanges(worker.model.variables()),
                               ScheduleOf(worker.plan), worker.device, worker.stream, worker.clock,
                               worker.handover.slots);
}

absl::StatusOr<std::unique_ptr<Strategy>> Staged(std::unique_ptr<Strategy> inner,
                                                 absl::optional<ReplicaUpdate> update,
                                                 const WorkerParts& worker) {
  if (worker.device.reads_host_memory()) return inner;
  const StagingOptions options{.step_timeout = worker.step_timeout(), .clock = &worker.clock};
  return CreateStagedStrategy(std::move(inner), std::move(update), worker.device, worker.stream, options);
}

}  // namespace tethys
