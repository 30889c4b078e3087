#include "deploy/describe/job_description.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/describe/job_remarks.h"
#include "deploy/describe/order_description.h"
#include "deploy/predict/job_forecast.h"
#include "deploy/report/medium.h"
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "ps/partitioner.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/data/data_format.h"
#include "runtime/data/kept_samples.h"
#include "runtime/data/sample_cache.h"
#include "runtime/job/job.h"
#include "runtime/nn/memory_forecast.h"
#include "runtime/nn/model.h"
#include "runtime/nn/plan.h"
#include "runtime/optim/optimizer.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr size_t kListedShards = 8;  // The most shards of a variable that a table lists.
constexpr int64_t kMuchMemory = int64_t{256} << 20;
constexpr int kListedProcesses = 16;  // The most processes of a role that a line lists.

std::string PartsText(const proto::JobPlan& plan) {
  const int64_t parts = plan.job().micro_batches();
  if (parts <= 1) return "";
  return absl::StrCat(", in ", parts, " parts of ", MicroBatchRows(plan.batch_per_worker(), parts));
}

std::string FrozenText(const proto::JobPlan& plan) {
  const int64_t frozen = FrozenCount(plan);
  return frozen > 0 ? absl::StrCat(", of which ", CountText(frozen), " are frozen") : "";
}

// The name of a group of servers, such as "ps 3", "ps 3 to 9, each" or "ps 15 to 39, at most".
std::string GroupName(const ServerGroup& group) {
  if (group.first == group.last) return absl::StrCat("ps ", group.first);
  return absl::StrCat("ps ", group.first, " to ", group.last, group.at_most ? ", at most" : ", each");
}

std::string LearningRateText(const proto::JobPlan& plan) {
  const proto::Optimizer& optimizer = plan.job().optimizer();
  const int workers = plan.job().workers();
  const double scale = optimizer.scale_with_workers() ? workers : 1;
  std::string text = absl::StrFormat("%g", optimizer.learning_rate() * scale);
  if (scale != 1) absl::StrAppendFormat(&text, " (%g x %d workers)", optimizer.learning_rate(), workers);
  const LearningRateSchedule schedule = ScheduleOf(plan);
  if (schedule.warm_up_samples() > 0) {
    absl::StrAppendFormat(&text, ", warming up from %g over %s samples", schedule.At(0),
                          CountText(schedule.warm_up_samples()));
  }
  for (const int64_t step : schedule.steps()) {
    absl::StrAppendFormat(&text, ", times %g at %s", optimizer.schedule().step_decay().factor(),
                          CountText(step));
  }
  if (schedule.decay_samples() > 0) {
    absl::StrAppendFormat(&text, ", decaying to %g over %s samples", schedule.At(schedule.decay_samples()),
                          CountText(schedule.decay_samples()));
    if (optimizer.schedule().has_cosine_decay()) absl::StrAppend(&text, " by a cosine");
    if (optimizer.schedule().has_polynomial_decay()) {
      absl::StrAppendFormat(&text, " by the power %g", optimizer.schedule().polynomial_decay().power());
    }
  }
  return text;
}

std::string GradientText(const proto::Job& job) {
  const auto scale = GradientScale(job.strategy().parameter_server());
  if (InBfloat16(job)) return "mean over the global batch, summed in bfloat16";
  if (!scale.has_value()) return "mean over the global batch";
  return scale == proto::Asynchronous::GLOBAL_MEAN ? "sum of each push, divided by the global batch "
                                                     "(GLOBAL_MEAN)"
                                                   : "mean of each push (PUSH_MEAN)";
}

std::string DataText(const proto::JobPlan& plan) {
  std::string text = absl::StrCat(CountText(plan.train_samples()), " training");
  if (plan.validation_samples() > 0)
    absl::StrAppend(&text, ", ", CountText(plan.validation_samples()), " validation");
  if (plan.test_samples() > 0) absl::StrAppend(&text, ", ", CountText(plan.test_samples()), " test");
  return absl::StrCat(text, " samples of [", absl::StrJoin(plan.sample_shape(), ", "), "]",
                      plan.float_inputs() ? " float32" : "");
}

std::string LengthText(const proto::Job& job) {
  std::vector<std::string> limits;
  if (job.epochs() > 0) limits.push_back(PluralText(job.epochs(), "epoch"));
  if (job.max_steps() > 0) limits.push_back(PluralText(job.max_steps(), "step"));
  return absl::StrCat(absl::StrJoin(limits, ", at most "), ", seed ", job.seed());
}

std::string PlacementText(const proto::JobPlan& plan) {
  std::vector<std::string> servers;
  for (const ServerGroup& group : GroupServers(plan.placement())) {
    servers.push_back(absl::StrCat(GroupName(group), " ", BytesText(group.elements * kFloatBytes)));
  }
  return absl::StrCat(PluralText(plan.placement().shard_size(), "shard"), ": ", absl::StrJoin(servers, ", "));
}

std::string VariableTable(const proto::JobPlan& plan) {
  std::map<std::string, std::vector<std::string>> places;
  std::map<std::string, int64_t> left_out;
  for (const proto::Shard& shard : plan.placement().shard()) {
    std::vector<std::string>& listed = places[shard.variable()];
    if (listed.size() == kListedShards) {
      ++left_out[shard.variable()];
      continue;
    }
    listed.push_back(
        absl::StrFormat("ps %d [%d, %d)", shard.server(), shard.begin(), shard.begin() + shard.count()));
  }
  for (const auto& [variable, count] : left_out) {
    places[variable].push_back(absl::StrCat("and ", CountText(count), " more shards"));
  }
  std::vector<Column> columns = {
      {{"variable"}, true}, {{"shape"}, true}, {{"bytes"}}, {{"elements of the arena"}, true}};
  std::vector<std::vector<std::string>> rows;
  for (const proto::VariableSpec& variable : plan.variable()) {
    const auto found = places.find(variable.name());
    const std::string everywhere = absl::StrFormat("[%d, %d) on every worker", variable.begin(),
                                                   variable.begin() + ElementsOf(variable));
    rows.push_back({variable.name(), absl::StrCat("[", absl::StrJoin(variable.shape(), ", "), "]"),
                    BytesText(ElementsOf(variable) * kFloatBytes),
                    found == places.end() ? everywhere : absl::StrJoin(found->second, ", ")});
  }
  return Table(columns, rows);
}

// The devices of the workers, such as "cuda, bf16 on 2 workers, cpu on 1 worker".
std::string DevicesText(const proto::JobPlan& plan) {
  const proto::Device& device = plan.job().device();
  std::string text = device.precision() == proto::Device::BF16 ? "cuda, bf16" : "cuda";
  if (device.tf32()) absl::StrAppend(&text, ", tf32");
  const int on_cpu = WorkersOn(proto::Device::CPU, plan);
  if (on_cpu == 0) return text;
  return absl::StrCat(text, " on ", PluralText(WorkersOn(proto::Device::CUDA, plan), "worker"), ", cpu on ",
                      PluralText(on_cpu, "worker"));
}

// A line that says how many bytes of samples each host keeps; empty if hosts keep no samples.
std::string CacheText(const proto::JobPlan& plan) {
  const proto::Data& data = plan.job().data();
  const SampleSpec spec = SampleSpecOf(plan);
  const int64_t training = plan.train_samples() + plan.validation_samples();
  const bool by_itself = !data.has_cache() && UnpacksSamples(data, spec, training);
  if (data.cache() == proto::Data::NONE && !by_itself) return "";
  int64_t bytes = SampleCacheLayout(spec, training).size;
  if (plan.test_samples() > 0) bytes += SampleCacheLayout(spec, plan.test_samples()).size;
  const std::string place =
      data.cache() == proto::Data::MEMORY
          ? "memory that the workers of the host share, as long as one of these workers runs"
      : data.cache_dir().empty() ? "the folder .cache/tethys/data in the user's home directory"
                                 : absl::StrCat("the folder ", data.cache_dir());
  return absl::StrCat("Each host with workers keeps ", BytesText(bytes),
                      by_itself ? " of unpacked samples in " : " of decoded samples in ", place,
                      by_itself ? ", if there is enough space.\n" : ".\n");
}

std::string MemoryTable(const proto::JobPlan& plan, const Model& model) {
  std::vector<Column> columns = {{{"process"}, true}, {{"parameters"}}, {{"gradients"}}, {{"slots"}},
                                 {{"activations"}},   {{"data"}},       {{"total"}}};
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& process, std::vector<int64_t> bytes) {
    int64_t total = 0;
    std::vector<std::string> row = {process};
    for (const int64_t part : bytes) {
      total += part;
      row.push_back(part > 0 ? BytesText(part) : "-");
    }
    row.push_back(BytesText(total));
    rows.push_back(row);
  };
  const int64_t data = DatasetBytes(plan);
  if (WorkersOn(proto::Device::CPU, plan) > 0) {
    const MemoryForecast on_cpu = WorkerMemory(plan, model, proto::Device::CPU);
    add(AnyOnGpu(plan) ? "each worker on a CPU" : "each worker",
        {on_cpu.parameters, on_cpu.gradients, on_cpu.slots, on_cpu.activations, data});
  }
  std::string note = CacheText(plan);
  if (AnyOnGpu(plan)) {
    const MemoryForecast on_gpu = WorkerMemory(plan, model, proto::Device::CUDA);
    add("each GPU", {on_gpu.parameters, on_gpu.gradients, on_gpu.slots,
                     on_gpu.activations + on_gpu.batches + on_gpu.copies, 0});
    // Workers exchange gradients and parameters with servers through host memory, so a worker with a GPU also
    // has copies of both in host memory. Whether mirrored workers need such copies is decided at run time.
    const bool staged = plan.placement().servers() > 0;
    add("the worker of each GPU",
        {staged ? on_gpu.parameters : 0, staged ? on_gpu.gradients : 0, 0, 0, data});
    absl::StrAppend(&note, "In addition, cuBLAS and cuDNN need workspace on each GPU, at most ",
                    BytesText(on_gpu.workspaces()), ".\n");
  }
  const int64_t copies = GradientCopies(plan);
  for (const ServerGroup& group : GroupServers(plan.placement())) {
    const ServerMemory memory = MemoryOfServer(plan, group.elements);
    add(GroupName(group), {memory.parameters, memory.gradients, memory.slots, 0, 0});
  }
  const int64_t kept = copies * (ParameterCount(plan) - FrozenCount(plan)) * kFloatBytes;
  if (plan.placement().servers() > 0 && !TraitsOf(plan.job()).leases() && copies > 1 && kept >= kMuchMemory) {
    absl::StrAppend(&note, "Servers keep the gradients of each worker, ", BytesText(kept),
                    " in all, to add them in the order of workers; "
                    "with bulk_synchronous { summation: ARRIVAL } they keep one copy, but then reruns are "
                    "not bit-equal.\n");
  }
  const auto slots = static_cast<int64_t>(SlotsOf(plan.job().optimizer()).size());
  const int64_t twice = (1 + slots) * (ParameterCount(plan) - FrozenCount(plan)) * kFloatBytes;
  if (plan.placement().servers() > 0 && FormsNewGroups(plan) && twice >= kMuchMemory) {
    absl::StrAppend(
        &note, "Servers keep parameters and slots twice, ", BytesText(twice),
        " more in all, so that the job goes on when a worker is lost; with elastic { on_loss: END } "
        "they keep them once, and losing a worker ends the job.\n");
  }
  if (CopiesShards(plan) && twice >= kMuchMemory) {
    absl::StrAppend(&note, "Servers also keep two versions of another server's parameters and slots, ",
                    BytesText(2 * twice),
                    " in all, so that the job goes on when a server is lost (replicas: 2).\n");
  }
  return Table(columns, rows) + note;
}

// A row of the traffic table for mirrored workers.
struct TrafficRow {
  std::string worker;
  std::string through;
  std::string how;
};

TrafficRow RowOf(const WorkerTraffic& traffic, const proto::JobPlan& plan,
                 const std::vector<int>& worker_hosts) {
  const ExchangeKind kind = ExchangeOf(plan, worker_hosts);
  if (kind == ExchangeKind::kSharedMemory) {
    return {"each worker", kThroughMemory,
            absl::StrFormat("all-reduce: (n - 1) / n of the gradients, n = %d", traffic.workers)};
  }
  if (kind != ExchangeKind::kHierarchical) {
    const std::string note = InBfloat16(plan.job()) ? ", in bfloat16"
                             : AnyOnGpu(plan)       ? "; NCCL where every worker has a GPU of its own"
                                                    : "";
    return {"each worker", AnyOnGpu(plan) ? kThroughNccl : kThroughTcp,
            absl::StrFormat("all-reduce: 2 (n - 1) / n of the gradients, n = %d%s", traffic.workers, note)};
  }
  const std::string of_so_many = absl::StrCat(" of ", traffic.ranks, " on a host");
  if (!traffic.leads) {
    return {absl::StrCat("each other worker", of_so_many), kThroughMemory, "all-reduce inside the host"};
  }
  const size_t hosts = std::set<int>(worker_hosts.begin(), worker_hosts.end()).size();
  return {absl::StrCat("the first worker", of_so_many), traffic.ranks == 1 ? kThroughTcp : kThroughBoth,
          absl::StrFormat("all-reduce: %s through TCP among %d hosts%s", BytesText(traffic.out_by_tcp), hosts,
                          traffic.ranks == 1 ? "" : ", the rest through memory")};
}

// A note on the sums over all workers that batch normalisation makes in each step: for each layer, two in the
// forward pass and one in the backward pass.
std::string StatisticsNote(const proto::Job& job, const Model& model) {
  if (!job.strategy().mirrored().synchronised_batch_normalisation() || job.workers() < 2) return "";
  int64_t layers = 0, floats = 0;
  for (const Model::Layer& layer : model.layers()) {
    if (layer.statistics.empty() || !layer.trains()) continue;
    const int64_t channels = layer.statistics.front().count;
    ++layers;
    floats += (channels + 1) + channels + 2 * channels;
  }
  if (layers == 0) return "";
  const int64_t parts = std::max(1, job.micro_batches());
  return absl::StrFormat(
      "In addition, all workers wait for one another %d times in a step to sum batch statistics, %s in "
      "all.\n",
      3 * layers * parts, BytesText(floats * parts * kFloatBytes));
}

std::string TrafficTable(const proto::JobPlan& plan, const Model& model,
                         const std::vector<int>& worker_hosts) {
  const int64_t workers = plan.job().workers();
  std::vector<Column> columns = {
      {{"per step"}, true}, {{"sends"}}, {{"receives"}}, {{"through"}, true}, {{"how"}, true}};
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& process, int64_t bytes, const std::string& how) {
    rows.push_back({process, BytesText(bytes), BytesText(bytes), kThroughTcp, how});
  };
  bool memory = false;
  if (plan.placement().servers() > 0) {
    const bool pulls = PullsBeforeStep(plan.job().strategy().parameter_server());
    add("each worker", (ParameterCount(plan) - FrozenCount(plan)) * kFloatBytes,
        pulls ? "pulls parameters as a step begins, pushes gradients"
              : "pushes gradients, gets parameters in reply");
    for (const ServerGroup& group : GroupServers(plan.placement())) {
      add(GroupName(group), workers * group.elements * kFloatBytes, "for a step of every worker");
      if (!CopiesShards(plan)) continue;
      add(GroupName(group), (1 + plan.slot_size()) * group.elements * kFloatBytes,
          TraitsOf(plan.job()).leases()
              ? "parameters and slots to the next server, at least once (replicas: 2)"
              : "parameters and slots to the next server (replicas: 2)");
    }
  } else if (workers > 1) {
    for (const WorkerTraffic& traffic : MirroredTraffic(plan, model, worker_hosts)) {
      const TrafficRow row = RowOf(traffic, plan, worker_hosts);
      rows.push_back({row.worker, BytesText(traffic.out), BytesText(traffic.in), row.through, row.how});
      memory = memory || row.through == kThroughMemory;
    }
  } else {
    rows.push_back({"the worker", "0 B", "0 B", "-", "one worker exchanges nothing"});
  }
  return absl::StrCat(Table(columns, rows), memory ? absl::StrCat(kMemoryNote, "\n") : "",
                      StatisticsNote(plan.job(), model));
}

}  // namespace

std::string ProcessesHere(const proto::JobPlan& plan) {
  const int workers = plan.job().workers();
  const int servers = plan.placement().servers();
  std::string text = "processes on this host: chief";
  if (servers > kListedProcesses) {
    absl::StrAppend(&text, ", ps 0 to ", servers - 1);
  } else {
    for (int i = 0; i < servers; ++i) absl::StrAppend(&text, ", ps ", i);
  }
  if (workers > kListedProcesses) {
    absl::StrAppend(&text, ", worker 0 to ", workers - 1, " (worker N has rank N)");
  } else {
    for (int i = 0; i < workers; ++i) absl::StrAppend(&text, ", worker ", i, " (rank ", i, ")");
  }
  return Wrap(text, "", kSummaryWidth);
}

std::string JobSummary(const proto::JobPlan& plan, int cores) {
  const proto::Job& job = plan.job();
  std::string text = absl::StrCat(job.name(), ": ", ShapeList(ShapeOf(job)), "\n");
  const auto add = [&](const char* what, const std::string& value) {
    absl::StrAppend(&text, WrapBeside(absl::StrCat("  ", what), value, kSummaryIndent, kSummaryWidth));
  };
  add("model", absl::StrCat(PluralText(plan.variable_size(), "variable"), ", ",
                            PluralText(ParameterCount(plan), "parameter"), " (",
                            BytesText(ParameterCount(plan) * kFloatBytes), ")", FrozenText(plan)));
  add("data", DataText(plan));
  for (const auto& [what, text] :
       {std::pair{"order", ShuffleDescription(plan)}, {"sharding", ShardingDescription(plan)}}) {
    if (!text.empty()) add(what, text);
  }
  add("length", LengthText(job));
  const bool even = plan.global_batch() % job.workers() == 0;
  add("global batch", absl::StrCat(PluralText(plan.global_batch(), "sample"), even ? ", " : ", at most ",
                                   plan.batch_per_worker(), " a worker", PartsText(plan)));
  if (AnyOnGpu(plan)) add("device", DevicesText(plan));
  add("optimizer", OptimizerText(job.optimizer()));
  add("learning rate", LearningRateText(plan));
  add("gradients", GradientText(job));
  if (plan.placement().servers() > 0) add("placement", PlacementText(plan));
  for (const std::string& remark : JobRemarks(plan, cores)) add("note", remark);
  return text;
}

absl::StatusOr<std::string> PlanReport(const proto::JobPlan& plan, const std::string& places,
                                       const std::vector<int>& worker_hosts, int cores) {
  TETHYS_ASSIGN_OR_RETURN(const Model model, ModelOf(plan));
  std::string text = absl::StrCat(JobSummary(plan, cores), "\n", places);
  absl::StrAppend(&text, "\nMemory of the buffers (without the memory of the program itself)\n",
                  MemoryTable(plan, model));
  absl::StrAppend(&text, "\nExchange (frame headers not counted)\n", TrafficTable(plan, model, worker_hosts));
  return text;
}

std::string VariablesReport(const proto::JobPlan& plan) {
  std::string text = VariableTable(plan);
  if (plan.placement().servers() > 0) absl::StrAppend(&text, "\n", PlacementTable(plan.placement()));
  return text;
}

}  // namespace tethys
