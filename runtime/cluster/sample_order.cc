#include "runtime/cluster/sample_order.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/random.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

ShuffleRules ShuffleRulesOf(const proto::Shuffle& shuffle) {
  switch (shuffle.kind_case()) {
    case proto::Shuffle::kBlocks:
      return {.kind = ShuffleRules::Kind::kBlocks,
              .block = std::max<int64_t>(1, shuffle.blocks().samples()),
              .window = std::max<int64_t>(1, shuffle.blocks().window())};
    case proto::Shuffle::kNone:
      return {.kind = ShuffleRules::Kind::kNone};
    default:
      return {};
  }
}

Sharding KindOf(proto::Data::Sharding sharding) {
  switch (sharding) {
    case proto::Data::FILE:
      return Sharding::kFile;
    case proto::Data::DATA:
      return Sharding::kData;
    case proto::Data::OFF:
      return Sharding::kOff;
    default:
      return Sharding::kGlobal;
  }
}

// True if whole batches go to ranks in turn. False: each step is divided among the ranks.
bool SplitsIntoBatches(const proto::JobPlan& plan) {
  return TraitsOf(plan.job()).batches == Batches::kOnDemand;
}

// The size, in samples, of the batches that are divided among ranks or go to ranks in turn.
int64_t SplitBatch(const proto::JobPlan& plan) {
  return std::max<int64_t>(1, SplitsIntoBatches(plan) ? plan.batch_per_worker() : plan.global_batch());
}

std::string ShardingText(const proto::JobPlan& plan) {
  const proto::Data::Sharding sharding = ShardingOf(plan);
  if (sharding == proto::Data::GLOBAL) return "";
  std::string text =
      absl::StrCat(proto::Data::Sharding_Name(sharding), " over ", RanksOf(plan), " workers in ",
                   SplitsIntoBatches(plan) ? "batches" : "steps", " of ", SplitBatch(plan));
  if (sharding != proto::Data::FILE) return text;
  uint64_t hash = kFnvStart;
  for (const int64_t samples : plan.file_samples()) hash = Fnv1a(&samples, sizeof(samples), hash);
  absl::StrAppendFormat(&text, ", %d files %016x", plan.file_samples_size(), hash);
  return text;
}

std::string ShuffleText(const proto::Shuffle& shuffle) {
  switch (shuffle.kind_case()) {
    case proto::Shuffle::kBlocks:
      return absl::StrCat("blocks of ", shuffle.blocks().samples(), " samples in windows of ",
                          shuffle.blocks().window());
    case proto::Shuffle::kNone:
      return "not shuffled";
    default:
      return "";
  }
}

}  // namespace

proto::Data::Sharding ShardingOf(const proto::JobPlan& plan) {
  const proto::Data::Sharding sharding = plan.job().data().sharding();
  if (sharding != proto::Data::AUTO) return sharding;
  return plan.file_samples().empty() ? proto::Data::DATA : proto::Data::FILE;
}

int64_t RanksOf(const proto::JobPlan& plan) {
  const proto::Job& job = plan.job();
  return std::max({1, job.workers(), job.strategy().local().virtual_replicas()});
}

int64_t EpochLength(const proto::JobPlan& plan) {
  return ShardingOf(plan) == proto::Data::OFF ? RanksOf(plan) * plan.train_samples() : plan.train_samples();
}

int64_t SamplesPerEpoch(const proto::JobPlan& plan) {
  return SamplesPerEpoch(EpochLength(plan), std::max<int64_t>(1, plan.global_batch()),
                         plan.job().drop_remainder());
}

RankSplit RankSplitOf(const proto::JobPlan& plan) {
  return SplitsIntoBatches(plan) ? RankSplit::OfBatches(EpochLength(plan), SplitBatch(plan), RanksOf(plan))
                                 : RankSplit::OfSteps(EpochLength(plan), SplitBatch(plan), RanksOf(plan));
}

OrderRules OrderRulesOf(const proto::JobPlan& plan) {
  return {.seed = plan.job().seed(),
          .samples = plan.train_samples(),
          .shuffle = ShuffleRulesOf(plan.job().data().shuffle()),
          .sharding = KindOf(ShardingOf(plan)),
          .file_samples = {plan.file_samples().begin(), plan.file_samples().end()},
          .split = RankSplitOf(plan)};
}

std::string OrderText(const proto::JobPlan& plan) {
  std::vector<std::string> parts = {ShardingText(plan), ShuffleText(plan.job().data().shuffle())};
  parts.erase(std::remove(parts.begin(), parts.end(), ""), parts.end());
  return absl::StrJoin(parts, "; ");
}

}  // namespace tethys
