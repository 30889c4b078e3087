#include "deploy/describe/order_description.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"
#include "runtime/cluster/sample_order.h"

namespace tethys {
namespace {

constexpr int64_t kListedWorkers = 16;

// For each rank: "18,000 samples" or "18,000 samples in 3 files".
std::vector<std::string> SharesText(const proto::JobPlan& plan, const SampleQueues& queues) {
  std::vector<std::string> shares;
  for (int64_t rank = 0; rank < queues.queues(); ++rank) {
    shares.push_back(PluralText(queues.SizeOf(rank), "sample"));
  }
  if (ShardingOf(plan) != proto::Data::FILE) return shares;
  const auto files = AssignFiles({plan.file_samples().begin(), plan.file_samples().end()}, RanksOf(plan));
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    absl::StrAppend(&shares[rank], " in ", PluralText(static_cast<int64_t>(files[rank].size()), "file"));
  }
  return shares;
}

std::string ListText(const std::vector<std::string>& shares) {
  const auto workers = static_cast<int64_t>(shares.size());
  const bool equal = std::all_of(shares.begin(), shares.end(),
                                 [&](const std::string& share) { return share == shares.front(); });
  if (equal) return absl::StrCat(workers == 1 ? "the worker " : "each worker ", shares.front());
  std::vector<std::string> listed;
  for (int64_t rank = 0; rank < std::min(workers, kListedWorkers); ++rank) {
    listed.push_back(absl::StrCat("worker ", rank, " ", shares[rank]));
  }
  if (workers > kListedWorkers) {
    listed.push_back(absl::StrCat("and ", CountText(workers - kListedWorkers), " more workers"));
  }
  return absl::StrJoin(listed, ", ");
}

}  // namespace

std::string ShuffleDescription(const proto::JobPlan& plan) {
  const proto::Shuffle& shuffle = plan.job().data().shuffle();
  if (shuffle.has_none()) return "not shuffled";
  if (!shuffle.has_blocks()) return "";
  return absl::StrCat("blocks of ", PluralText(shuffle.blocks().samples(), "sample"), ", in windows of ",
                      PluralText(shuffle.blocks().window(), "block"));
}

std::string ShardingDescription(const proto::JobPlan& plan) {
  const proto::Data::Sharding sharding = ShardingOf(plan);
  if (sharding == proto::Data::GLOBAL) return "";
  const bool chosen = plan.job().data().sharding() == proto::Data::AUTO;
  const std::shared_ptr<const SampleQueues> queues = QueuesOf(OrderRulesOf(plan));
  std::string text = absl::StrCat(proto::Data::Sharding_Name(sharding), chosen ? " (chosen by AUTO): " : ": ",
                                  ListText(SharesText(plan, *queues)));
  if (sharding == proto::Data::OFF) {
    absl::StrAppend(&text, ", ", CountText(queues->positions()), " in an epoch");
  }
  if (queues->moved() > 0) {
    absl::StrAppend(&text, "; ", PluralText(queues->moved(), "sample"),
                    queues->moved() == 1 ? " goes" : " go", " to other workers, whose batches need more");
  }
  return text;
}

}  // namespace tethys
