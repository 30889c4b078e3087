#include "deploy/predict/job_forecast.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "collectives/bucket_plan.h"
#include "collectives/mirrored_strategy.h"
#include "ps/message_plan.h"
#include "ps/partitioner.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/data_format.h"
#include "runtime/data/kept_samples.h"
#include "runtime/job/job.h"
#include "runtime/optim/optimizer.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kBfloat16Bytes = 2;

// The bytes that a rank sends, and receives, in a ring all-reduce of `bytes` among n ranks.
int64_t RingBytes(int64_t bytes, int64_t n) { return 2 * (n - 1) * bytes / n; }

// The bytes of memory in which a worker holds the order of an epoch's samples.
int64_t OrderBytes(const proto::JobPlan& plan) {
  const OrderRules rules = OrderRulesOf(plan);
  if (rules.shuffle.kind != ShuffleRules::Kind::kFull || EpochLength(plan) > EpochOrder::kMostHeld) return 0;
  const std::shared_ptr<const SampleQueues> queues = QueuesOf(rules);
  // A local job reads all queues of samples. A worker reads its own queue and, near the end of an epoch,
  // small parts of the queues of other workers.
  if (!TraitsOf(plan.job()).exchanges) return EpochOrder::BytesHeld(queues->positions());
  int64_t largest = 0;
  for (int64_t queue = 0; queue < queues->queues(); ++queue) {
    largest = std::max(largest, queues->SizeOf(queue));
  }
  return EpochOrder::BytesHeld(largest);
}

}  // namespace

int64_t ElementsOf(const proto::VariableSpec& variable) {
  int64_t elements = 1;
  for (const int64_t axis : variable.shape()) elements *= axis;
  return elements;
}

int64_t ParameterCount(const proto::JobPlan& plan) {
  int64_t count = 0;
  for (const proto::VariableSpec& variable : plan.variable()) count += ElementsOf(variable);
  return count;
}

int64_t FrozenCount(const proto::JobPlan& plan) {
  int64_t count = 0;
  for (const proto::VariableSpec& variable : plan.variable()) {
    if (variable.frozen()) count += ElementsOf(variable);
  }
  return count;
}

int WorkersOn(proto::Device::Kind device, const proto::JobPlan& plan) {
  int workers = 0;
  for (int i = 0; i < plan.job().workers(); ++i) workers += DeviceOf(plan, i) == device ? 1 : 0;
  return workers;
}

bool InBfloat16(const proto::Job& job) {
  return job.strategy().mirrored().gradients() == proto::Device::BF16;
}

SampleSpec SampleSpecOf(const proto::JobPlan& plan) {
  return {.shape = {plan.sample_shape().begin(), plan.sample_shape().end()},
          .labels = {.shape = {plan.label_shape().begin(), plan.label_shape().end()},
                     .targets = plan.job().model().loss().has_mean_squared_error()},
          .type = plan.float_inputs() ? ValueType::kFloat : ValueType::kByte};
}

absl::StatusOr<Model> ModelOf(const proto::JobPlan& plan) {
  const Shape sample_shape(plan.sample_shape().begin(), plan.sample_shape().end());
  return Model::Create(plan.job().model(), sample_shape, plan.job().data().classes());
}

ExchangeKind ExchangeOf(const proto::JobPlan& plan, const std::vector<int>& worker_hosts) {
  const int workers = plan.job().workers();
  if (plan.placement().servers() > 0) return ExchangeKind::kServers;
  if (workers < 2) return ExchangeKind::kNone;
  if (AnyOnGpu(plan)) return ExchangeKind::kDevices;
  const std::set<int> hosts(worker_hosts.begin(), worker_hosts.end());
  const bool by_tcp = plan.job().tuning().transport() == proto::Tuning::TCP;
  if (by_tcp || hosts.size() == static_cast<size_t>(workers)) return ExchangeKind::kRing;
  return hosts.size() < 2 ? ExchangeKind::kSharedMemory : ExchangeKind::kHierarchical;
}

int64_t GradientBytes(const proto::JobPlan& plan, const Model& model) {
  int64_t elements = 0;
  for (const Range& range : JoinedRanges(model.ready_order())) elements += AlignUp(range.count);
  return elements * (InBfloat16(plan.job()) ? kBfloat16Bytes : kFloatBytes);
}

int64_t SharedMemoryBytes(int64_t bytes, int64_t n) { return (n - 1) * bytes / n; }

std::vector<WorkerTraffic> MirroredTraffic(const proto::JobPlan& plan, const Model& model,
                                           const std::vector<int>& worker_hosts) {
  const int workers = plan.job().workers();
  const ExchangeKind kind = ExchangeOf(plan, worker_hosts);
  if (kind == ExchangeKind::kNone || kind == ExchangeKind::kServers) return {};
  const int64_t bytes = GradientBytes(plan, model);
  if (kind == ExchangeKind::kRing || kind == ExchangeKind::kDevices) {
    const int64_t ring = RingBytes(bytes, workers);
    return {{.workers = workers, .out = ring, .in = ring, .out_by_tcp = ring}};
  }
  if (kind == ExchangeKind::kSharedMemory) {
    const int64_t in_memory = SharedMemoryBytes(bytes, workers);
    return {{.workers = workers, .out = in_memory, .in = in_memory}};
  }
  std::map<int, int> by_host;
  for (const int host : worker_hosts) ++by_host[host];
  std::map<int, int> hosts_by_ranks;
  for (const auto& [host, ranks] : by_host) ++hosts_by_ranks[ranks];
  const int64_t ring = RingBytes(bytes, static_cast<int64_t>(by_host.size()));
  std::vector<WorkerTraffic> traffic;
  for (const auto& [ranks, hosts] : hosts_by_ranks) {
    const int64_t in_memory = SharedMemoryBytes(bytes, ranks);
    const int64_t first = ring + in_memory;
    traffic.push_back(
        {.workers = hosts, .ranks = ranks, .leads = true, .out = first, .in = first, .out_by_tcp = ring});
    if (ranks == 1) continue;
    // The first worker of a host hands the sums over all hosts to each of the host's other workers.
    traffic.push_back(
        {.workers = hosts * (ranks - 1), .ranks = ranks, .out = in_memory, .in = in_memory + bytes});
  }
  return traffic;
}

absl::StatusOr<std::vector<BucketForecast>> ForecastBuckets(const proto::JobPlan& plan, const Model& model) {
  const proto::Tuning& tuning = plan.job().tuning();
  const int64_t width = InBfloat16(plan.job()) ? kBfloat16Bytes : kFloatBytes;
  const int64_t bytes = tuning.has_bucket_bytes() ? tuning.bucket_bytes() : MirroredOptions().bucket_bytes;
  const int64_t elements = std::max<int64_t>(1, (bytes + width - 1) / width);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Bucket> buckets,
                          PlanBuckets(model.ready_order(), elements, elements));
  std::vector<BucketForecast> forecast;
  for (const Bucket& bucket : buckets) forecast.push_back({bucket.range.count * width, bucket.last_ready});
  return forecast;
}

absl::StatusOr<std::vector<PushForecast>> ForecastPushes(const proto::JobPlan& plan, const Model& model,
                                                         bool one_machine) {
  const int64_t arena = model.variables().arena_size();
  const int64_t message_bytes = MessageBytes(plan.job(), arena, plan.placement().servers(), one_machine);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<StepMessage> messages,
                          PlanMessages(plan.placement(), arena, model.ready_order(), message_bytes));
  std::vector<PushForecast> pushes(plan.placement().servers());
  for (const proto::Shard& shard : plan.placement().shard()) {
    pushes[shard.server()].bytes += shard.count() * kFloatBytes;
  }
  for (const StepMessage& message : messages) {
    ++pushes[message.server].messages;
    pushes[message.server].last_message_bytes = message.range.count * kFloatBytes;
  }
  return pushes;
}

int64_t DatasetBytes(const proto::JobPlan& plan) {
  const proto::Data& data = plan.job().data();
  const int64_t samples = plan.train_samples() + plan.validation_samples() + plan.test_samples();
  const SampleSpec spec = SampleSpecOf(plan);
  const bool kept =
      data.has_cache() ? data.cache() != proto::Data::NONE : UnpacksSamples(data, spec, samples);
  const int64_t each = kept ? 0 : FormatOf(data).bytes_held(data, spec);
  return samples * each + OrderBytes(plan);
}

MemoryForecast WorkerMemory(const proto::JobPlan& plan, const Model& model, proto::Device::Kind device) {
  return ForecastMemory(model, MemoryNeedsOf(plan, device));
}

int64_t GradientCopies(const proto::JobPlan& plan) {
  const proto::ParameterServer& config = plan.job().strategy().parameter_server();
  const bool adds_at_once = !TraitsOf(plan.job()).leases() &&
                            config.bulk_synchronous().summation() == proto::BulkSynchronous::ARRIVAL;
  return adds_at_once ? 1 : plan.job().workers();
}

ServerMemory MemoryOfServer(const proto::JobPlan& plan, int64_t elements) {
  const auto slots = static_cast<int64_t>(SlotsOf(plan.job().optimizer()).size());
  // The shadow of a server that can step back, and the two versions of the copy of another server's shards.
  // All servers have shards of about the same size.
  const int64_t copies = 1 + (FormsNewGroups(plan) ? 1 : 0) + (CopiesShards(plan) ? 2 : 0);
  const int64_t bytes = elements * kFloatBytes;
  return {.parameters = copies * bytes,
          .gradients = GradientCopies(plan) * bytes,
          .slots = copies * slots * bytes};
}

int64_t LargestServerBytes(const proto::JobPlan& plan) {
  int64_t elements = 0;
  for (const ServerGroup& group : GroupServers(plan.placement())) {
    elements = std::max(elements, group.elements);
  }
  return MemoryOfServer(plan, elements).total();
}

}  // namespace tethys
