#include "ps/served_store.h"

#include <algorithm>
#include <utility>

namespace tethys {
namespace {

InitialValue ToInitialValue(proto::Initializer initializer) {
  switch (initializer) {
    case proto::GLOROT_UNIFORM:
      return InitialValue::kGlorotUniform;
    case proto::HE_NORMAL:
      return InitialValue::kHeNormal;
    default:
      return InitialValue::kZeros;
  }
}

absl::StatusOr<VariableSet> VariablesOf(const proto::JobPlan& plan) {
  VariableSet variables;
  for (const proto::VariableSpec& spec : plan.variable()) {
    TETHYS_RETURN_IF_ERROR(variables.Add(spec.name(), {spec.shape().begin(), spec.shape().end()},
                                         spec.layout(), ToInitialValue(spec.initializer()), spec.fan_in(),
                                         spec.fan_out()));
    if (const int64_t begin = variables.variables().back().range.begin; begin != spec.begin()) {
      return absl::InvalidArgumentError(absl::StrCat("plan: variable '", spec.name(), "' begins at ",
                                                     spec.begin(), " of the arena, expected ", begin));
    }
  }
  if (variables.signature() != plan.model_signature()) {
    return absl::InvalidArgumentError("plan: the model signature is not that of its variables");
  }
  return variables;
}

// Of the whole job: what a linear decay without a length of its own spans.
int64_t TotalSamples(const proto::JobPlan& plan) {
  return plan.job().epochs() > 0 ? plan.job().epochs() * plan.train_samples()
                                 : plan.job().max_steps() * plan.global_batch();
}

}  // namespace

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
  served->workers = std::max(1, plan.job().workers());
  TETHYS_ASSIGN_OR_RETURN(served->device, CreateCpuDevice(threads));
  TETHYS_ASSIGN_OR_RETURN(served->stream, served->device->CreateStream());

  std::vector<NamedRange> ranges;
  for (const ShardLayout::Shard& shard : layout.shards()) ranges.push_back({shard.variable, shard.local});
  const proto::Optimizer& optimizer_config = plan.job().optimizer();
  TETHYS_ASSIGN_OR_RETURN(
      std::unique_ptr<Optimizer> optimizer,
      CreateOptimizer(optimizer_config, *served->device, MakeSegments(optimizer_config, ranges)));
  served->store = std::make_unique<ParameterStore>(
      StoreConfig{.server = server,
                  .workers = served->workers,
                  .generation = generation,
                  .optimizer = optimizer_config,
                  .parameter_server = plan.job().strategy().parameter_server(),
                  .global_batch = plan.global_batch(),
                  .total_samples = TotalSamples(plan)},
      std::move(layout), std::move(optimizer), *served->stream);
  TETHYS_RETURN_IF_ERROR(
      served->store->ForEachShard([&](int slot, int64_t arena_begin, absl::Span<float> values) {
        const Range range{arena_begin, static_cast<int64_t>(values.size())};
        if (slot == 0) variables.FillInitialValues(plan.job().seed(), range, values.data());
        return absl::OkStatus();
      }));
  return served;
}

}  // namespace tethys
