// The strategy of mirrored workers: GPUs sum gradients among themselves if all of them can; otherwise the
// hosts sum gradients.
#include <algorithm>
#include <string>
#include <utility>

#include "collectives/exchange.h"
#include "collectives/mirrored_strategy.h"
#include "collectives/stream_exchange.h"
#include "collectives/stream_mirrored_strategy.h"
#include "runtime/base/logging.h"
#include "runtime/cluster/job_plan.h"
#include "workers/strategies/worker_parts.h"

namespace tethys {
namespace {

// The group id of the ring that sums batch statistics.
constexpr uint32_t kStatisticsGroup = 2;

// The limit on the time in which GPUs leave their group, unless timeouts.step is shorter.
constexpr Nanoseconds kAbortTimeout = 10 * kSecond;

const proto::Mirrored& ConfigOf(const WorkerParts& worker) { return worker.job().strategy().mirrored(); }

// True if layers of this job need sums over the group's workers.
bool SynchronisesLayers(const WorkerParts& worker) {
  return ConfigOf(worker).synchronised_batch_normalisation() && worker.place.world > 1 &&
         !worker.model.statistics().variables().empty();
}

// Creates the strategy in which the GPUs themselves sum gradients.
absl::StatusOr<std::unique_ptr<Strategy>> MirroredOnStreams(StreamExchange exchange,
                                                            const WorkerParts& worker) {
  const proto::Tuning& tuning = worker.job().tuning();
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update, UpdateOf(worker));
  StreamMirroredOptions options;
  if (tuning.has_bucket_bytes()) options.bucket_bytes = tuning.bucket_bytes();
  options.in_bfloat16 = ConfigOf(worker).gradients() == proto::Device::BF16;
  options.sums_for_layers = SynchronisesLayers(worker);
  options.step_timeout = worker.step_timeout();
  options.clock = &worker.clock;
  options.reason = std::move(exchange.reason);
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> strategy,
                          CreateStreamMirroredStrategy(std::move(exchange.communicator), std::move(update),
                                                       worker.device, worker.stream, options));
  TETHYS_LOG(Info, "gradients are exchanged by ", strategy->Describe());
  return strategy;
}

// Refuses BF16 sums in a job whose gradients go through the CPU.
absl::Status CheckSumsInFloat32(const WorkerParts& worker, absl::string_view exchange) {
  if (ConfigOf(worker).gradients() == proto::Device::FP32) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "strategy.mirrored.gradients is BF16, in which only GPUs can sum, but gradients would be exchanged by ",
      exchange, ": leave this field out, or give every worker a GPU of its own"));
}

// Connects the workers a second time, so that the sums over workers that layers compute (synchronised batch
// normalisation) do not wait for gradients. Returns null if no layer needs such sums.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectLayers(RingOptions ring, bool any_on_gpu,
                                                            const WorkerParts& worker) {
  if (!SynchronisesLayers(worker)) return nullptr;
  if (any_on_gpu) {
    return absl::FailedPreconditionError(
        "strategy.mirrored.synchronised_batch_normalisation is true, but these GPUs cannot sum "
        "statistics directly with one another: set this field to false, give every worker a GPU of its own, "
        "or train on CPUs");
  }
  ring.group = kStatisticsGroup;
  ring.connect_timeout = worker.TimeLeft();
  TETHYS_ASSIGN_OR_RETURN(Exchange exchange,
                          CreateExchange(worker.listener, ring, worker.job().tuning().transport()));
  return std::move(exchange.communicator);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> MakeMirrored(const WorkerParts& worker) {
  TETHYS_ASSIGN_OR_RETURN(RingOptions ring, RingOf(worker));
  const proto::Tuning& tuning = worker.job().tuning();
  TETHYS_ASSIGN_OR_RETURN(Exchange exchange, CreateExchange(worker.listener, ring, tuning.transport()));
  if (worker.handover.connected) TETHYS_RETURN_IF_ERROR(worker.handover.connected(*exchange.communicator));
  // If any rank may have a GPU, all ranks decide together whether GPUs sum, so that all use the same
  // exchange.
  const bool any_on_gpu = AnyOnGpu(worker.plan);
  if (any_on_gpu) {
    StreamExchangeOptions options{.timeout = worker.TimeLeft(),
                                  .abort_timeout = std::min(kAbortTimeout, worker.step_timeout()),
                                  .clock = &worker.clock};
    if (Interruption* const interruption = worker.handover.interruption; interruption != nullptr) {
      options.interrupted = [interruption] { return interruption->Check(); };
    }
    // The group may lack a lost worker that computes on a CPU. The exchange then still goes through the host,
    // because this worker may be replaced.
    if (AnyOnCpu(worker.plan)) options.obstacle = "workers outside this group compute on the CPU";
    TETHYS_ASSIGN_OR_RETURN(StreamExchange on_devices,
                            CreateStreamExchange(*exchange.communicator, worker.device, options));
    if (on_devices.communicator != nullptr) return MirroredOnStreams(std::move(on_devices), worker);
    absl::StrAppend(&exchange.description, ", GPUs staged through the host: ", on_devices.reason);
  }
  TETHYS_RETURN_IF_ERROR(CheckSumsInFloat32(worker, exchange.description));
  TETHYS_LOG(Info, "gradients are exchanged by ", exchange.description);
  MirroredOptions options;
  if (tuning.has_bucket_bytes()) options.bucket_bytes = tuning.bucket_bytes();
  options.exchange = exchange.description;
  options.in_memory_of_communicator = !any_on_gpu;
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> layers,
                          ConnectLayers(std::move(ring), any_on_gpu, worker));
  TETHYS_ASSIGN_OR_RETURN(absl::optional<ReplicaUpdate> update, UpdateOf(worker));
  if (worker.device.reads_host_memory()) {
    return CreateMirroredStrategy(std::move(exchange.communicator), std::move(update), options,
                                  std::move(layers));
  }
  // If the host cannot use the device's memory, the host only sums gradients, and the staged strategy makes
  // the update on the device.
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> sums,
                          CreateMirroredStrategy(std::move(exchange.communicator), absl::nullopt, options));
  return Staged(std::move(sums), std::move(update), worker);
}

}  // namespace tethys
