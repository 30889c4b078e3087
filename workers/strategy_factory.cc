#include "workers/strategy_factory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/job_authenticator.h"
#include "collectives/mirrored_strategy.h"
#include "collectives/stream_exchange.h"
#include "collectives/stream_mirrored_strategy.h"
#include "ps/parameter_server_strategy.h"
#include "runtime/base/logging.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/local_strategy.h"
#include "runtime/shape/job_shape.h"
#include "runtime/staged_strategy.h"

namespace tethys {
namespace {

// The group ids of a job's rings: of that which sums gradients, and of that which sums batch statistics.
constexpr uint32_t kGradientGroup = 1;
constexpr uint32_t kStatisticsGroup = 2;

// The update of a replica that holds all parameters on its device.
absl::StatusOr<ReplicaUpdate> UpdateOf(const proto::JobPlan& plan, Replica& replica) {
  return replica.MakeUpdate(plan.job().optimizer(), ScheduleOf(plan));
}

// Wraps `inner` in a staged strategy, unless the host can use the device's memory.
absl::StatusOr<std::unique_ptr<Strategy>> Staged(std::unique_ptr<Strategy> inner,
                                                 absl::optional<ReplicaUpdate> update,
                                                 const proto::JobPlan& plan, Replica& replica,
                                                 const Clock& clock) {
  if (replica.device().reads_host_memory()) return inner;
  const StagingOptions options{.step_timeout = FromSeconds(plan.job().timeouts().step()), .clock = &clock};
  return CreateStagedStrategy(std::move(inner), std::move(update), replica.device(), replica.stream(),
                              options);
}

// The time until `deadline`, but enough to try.
Nanoseconds TimeLeft(Nanoseconds deadline, const Clock& clock) {
  return std::max<Nanoseconds>(kSecond / 2, deadline - clock.Now());
}

absl::StatusOr<RingOptions> RingOf(const TaskOptions& task, const proto::Setup& setup, const Clock& clock,
                                   Nanoseconds deadline, PeersCompute peers_compute) {
  const proto::JobPlan& plan = setup.plan();
  RingOptions ring;
  ring.rank = task.index;
  for (const proto::Member& member : setup.member()) {
    if (member.role() != proto::WORKER) continue;
    ring.members.push_back(
        {.address = member.data_address(),
         .name = absl::StrCat(TaskName(member.role(), member.index()), " on ", member.host()),
         .certificate = CertificateName(member.role(), member.index())});
  }
  ring.group = kGradientGroup;
  ring.generation = setup.generation();
  ring.incarnation = task.incarnation;
  if (task.tls.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(ring.tls, TlsContext::Create(*task.tls));
  }
  proto::Handshake identity;
  identity.set_role(proto::WORKER);
  identity.set_job_id(plan.job_id());
  identity.set_job_hash(plan.job_hash());
  identity.set_model_signature(plan.model_signature());
  ring.authenticator = CreateJobAuthenticator(task.token, std::move(identity));
  ring.connect_timeout = TimeLeft(deadline, clock);
  ring.step_timeout = FromSeconds(plan.job().timeouts().step());
  ring.peers_compute = std::move(peers_compute);
  ring.clock = &clock;
  return ring;
}

// Whether layers of this job need sums over all workers.
bool SynchronisesLayers(const proto::Job& job, const Model& model) {
  return job.strategy().mirrored().synchronised_batch_normalisation() && job.workers() > 1 &&
         !model.statistics().variables().empty();
}

// Creates the strategy in which the GPUs themselves sum gradients.
absl::StatusOr<std::unique_ptr<Strategy>> MirroredOnStreams(StreamExchange exchange,
                                                            const proto::JobPlan& plan, Replica& replica,
                                                            const Clock& clock) {
  const proto::Mirrored& mirrored = plan.job().strategy().mirrored();
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update, UpdateOf(plan, replica));
  StreamMirroredOptions options;
  const proto::Tuning& tuning = plan.job().tuning();
  if (tuning.has_bucket_bytes()) options.bucket_bytes = tuning.bucket_bytes();
  options.in_bfloat16 = mirrored.gradients() == proto::Device::BF16;
  options.sums_for_layers = SynchronisesLayers(plan.job(), replica.model());
  options.step_timeout = FromSeconds(plan.job().timeouts().step());
  options.clock = &clock;
  options.reason = std::move(exchange.reason);
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> strategy,
                          CreateStreamMirroredStrategy(std::move(exchange.communicator), std::move(update),
                                                       replica.device(), replica.stream(), options));
  TETHYS_LOG(Info, "gradients are exchanged by ", strategy->Describe());
  return strategy;
}

// Refuses BF16 sums in a job whose gradients go through the CPU.
absl::Status CheckSumsInFloat32(const proto::Mirrored& mirrored, absl::string_view exchange) {
  if (mirrored.gradients() == proto::Device::FP32) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "strategy.mirrored.gradients is BF16, in which only GPUs sum, but gradients would be exchanged by ",
      exchange, ": leave it out, or give every worker a GPU of its own"));
}

// A second group of connections, so that layers do not wait for gradients; null if none needs it.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectLayers(RingListener& listener, RingOptions ring,
                                                            const proto::Job& job, const Model& model,
                                                            bool any_on_gpu) {
  if (!SynchronisesLayers(job, model)) return nullptr;
  if (any_on_gpu) {
    return absl::FailedPreconditionError(
        "strategy.mirrored.synchronised_batch_normalisation is true, but GPUs cannot sum among themselves "
        "here: leave it out, give every worker a GPU of its own, or train on CPUs");
  }
  ring.group = kStatisticsGroup;
  TETHYS_ASSIGN_OR_RETURN(Exchange exchange, CreateExchange(listener, ring, job.tuning().transport()));
  return std::move(exchange.communicator);
}

absl::StatusOr<std::unique_ptr<Strategy>> Mirrored(const TaskOptions& task, const proto::Setup& setup,
                                                   Replica& replica, RingListener& listener,
                                                   const Clock& clock, Nanoseconds deadline,
                                                   PeersCompute peers_compute) {
  const proto::JobPlan& plan = setup.plan();
  TETHYS_ASSIGN_OR_RETURN(RingOptions ring, RingOf(task, setup, clock, deadline, std::move(peers_compute)));
  const proto::Tuning& tuning = plan.job().tuning();
  TETHYS_ASSIGN_OR_RETURN(Exchange exchange, CreateExchange(listener, ring, tuning.transport()));
  // If any rank may have a GPU, all ranks take part in this choice, so that all choose the same exchange.
  const bool any_on_gpu = AnyOnGpu(plan);
  if (any_on_gpu) {
    TETHYS_ASSIGN_OR_RETURN(
        StreamExchange on_devices,
        CreateStreamExchange(*exchange.communicator, replica.device(), TimeLeft(deadline, clock), clock));
    if (on_devices.communicator != nullptr) {
      return MirroredOnStreams(std::move(on_devices), plan, replica, clock);
    }
    absl::StrAppend(&exchange.description, ", GPUs staged through the host: ", on_devices.reason);
  }
  TETHYS_RETURN_IF_ERROR(CheckSumsInFloat32(plan.job().strategy().mirrored(), exchange.description));
  TETHYS_LOG(Info, "gradients are exchanged by ", exchange.description);
  MirroredOptions options;
  if (tuning.has_bucket_bytes()) options.bucket_bytes = tuning.bucket_bytes();
  options.exchange = exchange.description;
  options.in_memory_of_communicator = !any_on_gpu;
  ring.connect_timeout = TimeLeft(deadline, clock);
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> layers,
                          ConnectLayers(listener, std::move(ring), plan.job(), replica.model(), any_on_gpu));
  TETHYS_ASSIGN_OR_RETURN(absl::optional<ReplicaUpdate> update, UpdateOf(plan, replica));
  if (replica.device().reads_host_memory()) {
    return CreateMirroredStrategy(std::move(exchange.communicator), std::move(update), options,
                                  std::move(layers));
  }
  // If the host cannot use the device's memory, the host only sums gradients, and the staged strategy makes
  // the update on the device.
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> sums,
                          CreateMirroredStrategy(std::move(exchange.communicator), absl::nullopt, options));
  return Staged(std::move(sums), std::move(update), plan, replica, clock);
}

absl::StatusOr<std::unique_ptr<Strategy>> WithServers(const TaskOptions& task, const proto::Setup& setup,
                                                      const Clock& clock, Nanoseconds deadline,
                                                      PeersCompute peers_compute) {
  ParameterServerStrategyOptions options;
  options.plan = setup.plan();
  options.worker = task.index;
  options.incarnation = task.incarnation;
  options.generation = setup.generation();
  for (const proto::Member& member : setup.member()) {
    if (member.role() == proto::PS) options.servers.push_back({member.host(), member.data_address()});
  }
  options.token = task.token;
  options.tls = task.tls;
  options.clock = &clock;
  options.start_deadline = deadline;
  // Without it where no server's answer depends on another worker.
  const bool waits = TraitsOf(setup.plan().job()).waits_for != WaitsFor::kNone;
  if (waits) options.peers_compute = std::move(peers_compute);
  return CreateParameterServerStrategy(std::move(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateStrategy(const TaskOptions& task, const proto::Setup& setup,
                                                         Replica& replica, RingListener& listener,
                                                         const Clock& clock, Nanoseconds deadline,
                                                         PeersCompute peers_compute) {
  const proto::JobPlan& plan = setup.plan();
  const ShapeTraits& traits = TraitsOf(plan.job());
  if (traits.servers()) {
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> servers,
                            WithServers(task, setup, clock, deadline, std::move(peers_compute)));
    return Staged(std::move(servers), absl::nullopt, plan, replica, clock);
  }
  if (traits.exchanges) {
    return Mirrored(task, setup, replica, listener, clock, deadline, std::move(peers_compute));
  }
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update, UpdateOf(plan, replica));
  return CreateLocalStrategy(std::move(update), clock, FromSeconds(plan.job().timeouts().step()));
}

}  // namespace tethys
