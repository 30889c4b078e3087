#include "workers/strategy_factory.h"

#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/mirrored_strategy.h"
#include "collectives/stream_exchange.h"
#include "collectives/stream_mirrored_strategy.h"
#include "ps/parameter_server_strategy.h"
#include "runtime/base/logging.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/local_strategy.h"
#include "runtime/optim/optimizer.h"
#include "runtime/staged_strategy.h"

namespace tethys {
namespace {

// The job's gradient ring; a later one (synchronised statistics) gets another group.
constexpr uint32_t kGradientGroup = 1;

absl::StatusOr<std::unique_ptr<Optimizer>> OptimizerOfAll(const proto::JobPlan& plan, const Model& model,
                                                          Device& device) {
  std::vector<NamedRange> ranges;
  for (const Variable& variable : model.variables().variables())
    ranges.push_back({variable.name, variable.range});
  return CreateOptimizer(plan.job().optimizer(), device, MakeSegments(plan.job().optimizer(), ranges));
}

// Of a replica that holds all parameters on its device.
absl::StatusOr<ReplicaUpdate> UpdateOfAll(const proto::JobPlan& plan, const Model& model, Device& device,
                                          Stream& stream, const Clock& clock) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, OptimizerOfAll(plan, model, device));
  return ReplicaUpdate(std::move(optimizer), plan.job().optimizer(), TotalSamples(plan), plan.job().workers(),
                       stream, clock);
}

// `inner` itself where the host can use the device's memory.
absl::StatusOr<std::unique_ptr<Strategy>> Staged(std::unique_ptr<Strategy> inner,
                                                 absl::optional<ReplicaUpdate> update,
                                                 const proto::JobPlan& plan, Device& device, Stream& stream,
                                                 const Clock& clock) {
  if (device.reads_host_memory()) return inner;
  const StagingOptions options{.step_timeout = FromSeconds(plan.job().timeouts().step()), .clock = &clock};
  return CreateStagedStrategy(std::move(inner), std::move(update), device, stream, options);
}

absl::StatusOr<RingOptions> RingOf(const TaskOptions& task, const proto::Setup& setup, const Clock& clock,
                                   PeersCompute peers_compute) {
  const proto::JobPlan& plan = setup.plan();
  RingOptions ring;
  ring.rank = task.index;
  for (const proto::Member& member : setup.member()) {
    if (member.role() != proto::WORKER) continue;
    ring.addresses.push_back(member.data_address());
    ring.certificate_names.push_back(CertificateName(member.role(), member.index()));
    ring.member_names.push_back(absl::StrCat(TaskName(member.role(), member.index()), " on ", member.host()));
  }
  ring.group = kGradientGroup;
  ring.generation = setup.generation();
  ring.incarnation = task.incarnation;
  ring.token = task.token;
  if (task.tls.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(ring.tls, TlsContext::Create(*task.tls));
  }
  ring.identity.set_role(proto::WORKER);
  ring.identity.set_job_id(plan.job_id());
  ring.identity.set_job_hash(plan.job_hash());
  ring.identity.set_model_signature(plan.model_signature());
  ring.connect_timeout = FromSeconds(plan.job().timeouts().start());
  ring.step_timeout = FromSeconds(plan.job().timeouts().step());
  ring.peers_compute = std::move(peers_compute);
  ring.clock = &clock;
  return ring;
}

// By the GPUs themselves.
absl::StatusOr<std::unique_ptr<Strategy>> MirroredOnStreams(StreamExchange exchange,
                                                            const proto::JobPlan& plan, const Model& model,
                                                            Device& device, Stream& stream,
                                                            const Clock& clock) {
  const proto::Mirrored& mirrored = plan.job().strategy().mirrored();
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update, UpdateOfAll(plan, model, device, stream, clock));
  StreamMirroredOptions options;
  if (mirrored.has_bucket_bytes()) options.bucket_bytes = mirrored.bucket_bytes();
  options.in_bfloat16 = mirrored.gradients() == proto::Device::BF16;
  options.step_timeout = FromSeconds(plan.job().timeouts().step());
  options.clock = &clock;
  options.reason = std::move(exchange.reason);
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> strategy,
                          CreateStreamMirroredStrategy(std::move(exchange.communicator), std::move(update),
                                                       device, stream, options));
  TETHYS_LOG(Info, "gradients are exchanged by ", strategy->Describe());
  return strategy;
}

// Of a job whose gradients go through the CPU.
absl::Status CheckSumsInFloat32(const proto::Mirrored& mirrored, absl::string_view exchange) {
  if (mirrored.gradients() == proto::Device::FP32) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "strategy.mirrored.gradients is BF16, in which only GPUs sum, but gradients would be exchanged by ",
      exchange, ": leave it out, or give every worker a GPU of its own"));
}

absl::StatusOr<std::unique_ptr<Strategy>> Mirrored(const TaskOptions& task, const proto::Setup& setup,
                                                   const Model& model, Device& device, Stream& stream,
                                                   RingListener& listener, const Clock& clock,
                                                   PeersCompute peers_compute) {
  const proto::JobPlan& plan = setup.plan();
  TETHYS_ASSIGN_OR_RETURN(const RingOptions ring, RingOf(task, setup, clock, std::move(peers_compute)));
  const proto::Mirrored& mirrored = plan.job().strategy().mirrored();
  TETHYS_ASSIGN_OR_RETURN(Exchange exchange, CreateExchange(listener, ring, mirrored.transport()));
  // Where any rank may have a GPU, all take part in the choice, so that all make the same.
  const bool any_on_gpu = AnyOnGpu(plan);
  if (any_on_gpu) {
    TETHYS_ASSIGN_OR_RETURN(StreamExchange on_devices, CreateStreamExchange(*exchange.communicator, device,
                                                                            ring.connect_timeout, clock));
    if (on_devices.communicator != nullptr) {
      return MirroredOnStreams(std::move(on_devices), plan, model, device, stream, clock);
    }
    absl::StrAppend(&exchange.description, ", GPUs staged through the host: ", on_devices.reason);
  }
  TETHYS_RETURN_IF_ERROR(CheckSumsInFloat32(mirrored, exchange.description));
  TETHYS_LOG(Info, "gradients are exchanged by ", exchange.description);
  // Where the host cannot use the device's memory, it only sums: the update is the staging's.
  std::unique_ptr<Optimizer> optimizer;
  if (device.reads_host_memory()) {
    TETHYS_ASSIGN_OR_RETURN(optimizer, OptimizerOfAll(plan, model, device));
  }
  MirroredOptions options;
  options.optimizer = plan.job().optimizer();
  options.total_samples = TotalSamples(plan);
  if (mirrored.has_bucket_bytes()) options.bucket_bytes = mirrored.bucket_bytes();
  options.exchange = exchange.description;
  options.in_memory_of_communicator = !any_on_gpu;
  TETHYS_ASSIGN_OR_RETURN(
      std::unique_ptr<Strategy> strategy,
      CreateMirroredStrategy(std::move(exchange.communicator), std::move(optimizer), options, stream, clock));
  if (device.reads_host_memory()) return strategy;
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update, UpdateOfAll(plan, model, device, stream, clock));
  return Staged(std::move(strategy), std::move(update), plan, device, stream, clock);
}

absl::StatusOr<std::unique_ptr<Strategy>> WithServers(const TaskOptions& task, const proto::Setup& setup,
                                                      const Clock& clock, PeersCompute peers_compute) {
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
  // Asynchronously no answer waits for another worker.
  const bool asynchronous = setup.plan().job().strategy().parameter_server().has_asynchronous();
  if (!asynchronous) options.peers_compute = std::move(peers_compute);
  return CreateParameterServerStrategy(std::move(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateStrategy(const TaskOptions& task, const proto::Setup& setup,
                                                         const Model& model, Device& device, Stream& stream,
                                                         RingListener& listener, const Clock& clock,
                                                         PeersCompute peers_compute) {
  const proto::JobPlan& plan = setup.plan();
  if (plan.job().strategy().has_parameter_server()) {
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> servers,
                            WithServers(task, setup, clock, std::move(peers_compute)));
    return Staged(std::move(servers), absl::nullopt, plan, device, stream, clock);
  }
  if (plan.job().strategy().has_mirrored()) {
    return Mirrored(task, setup, model, device, stream, listener, clock, std::move(peers_compute));
  }
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, OptimizerOfAll(plan, model, device));
  return CreateLocalStrategy(std::move(optimizer), plan.job().optimizer(), TotalSamples(plan),
                             plan.job().workers(), stream, clock, FromSeconds(plan.job().timeouts().step()));
}

}  // namespace tethys
