#include "ps/served_store.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "ps/shared_norms.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {

int ServedStore::RankOf(int worker) const {
  const std::vector<int>& workers = store->workers();
  const auto place = absl::c_find(workers, worker);
  return place == workers.end() ? -1 : static_cast<int>(place - workers.begin());
}

absl::StatusOr<std::shared_ptr<ServedStore>> ServedStore::Create(const proto::JobPlan& plan, int server,
                                                                 uint32_t generation, int threads) {
  TETHYS_ASSIGN_OR_RETURN(const VariableSet variables, VariablesOf(plan));
  TETHYS_ASSIGN_OR_RETURN(ShardLayout layout,
                          ShardLayout::Create(plan.placement(), server, variables.arena_size()));
  auto served = std::make_shared<ServedStore>();
  served->expected = {.job_id = plan.job_id(),
                      .job_hash = plan.job_hash(),
                      .model_signature = plan.model_signature(),
                      .generation = generation};
  std::vector<int> workers(std::max(1, plan.job().workers()));
  absl::c_iota(workers, 0);
  TETHYS_ASSIGN_OR_RETURN(served->device, CreateCpuDevice(threads));
  TETHYS_ASSIGN_OR_RETURN(served->stream, served->device->CreateStream());

  std::vector<NamedRange> ranges;
  for (const ShardLayout::Shard& shard : layout.shards()) ranges.push_back({shard.variable, shard.local});
  proto::Optimizer optimizer_config = plan.job().optimizer();
  // The optimizer clips nothing: workers clip before they push, or the store clips with the norm over all
  // servers.
  optimizer_config.clear_clip();
  const double clip_norm = ClipsOnServers(plan.job()) ? plan.job().optimizer().clip().global_norm() : 0;
  TETHYS_ASSIGN_OR_RETURN(
      std::unique_ptr<Optimizer> optimizer,
      CreateOptimizer(optimizer_config, *served->device, MakeUpdateRegions(optimizer_config, ranges)));
  TETHYS_ASSIGN_OR_RETURN(
      served->store,
      ParameterStore::Create(StoreConfig{.server = server,
                                         .workers = std::move(workers),
                                         .generation = generation,
                                         .slots = SlotsOf(optimizer_config),
                                         .schedule = ScheduleOf(plan),
                                         .parameter_server = plan.job().strategy().parameter_server(),
                                         .global_batch = plan.global_batch(),
                                         .clip_norm = clip_norm,
                                         .measures = MeasuresOnServers(plan.job()),
                                         .keeps_undo = FormsNewGroups(plan),
                                         .copied = CopiesShards(plan)},
                             std::move(layout), std::move(optimizer), *served->stream));
  TETHYS_RETURN_IF_ERROR(
      served->store->ForEachShard([&](int slot, int64_t arena_begin, absl::Span<float> values) {
        const Range range{arena_begin, static_cast<int64_t>(values.size())};
        if (slot == 0) variables.FillInitialValues(plan.job().seed(), range, values.data());
        return absl::OkStatus();
      }));
  return served;
}

}  // namespace tethys
