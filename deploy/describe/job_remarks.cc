#include "deploy/describe/job_remarks.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/predict/job_forecast.h"
#include "deploy/report/normalisation.h"
#include "deploy/text.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// A server with less than 1 / kThin of the fullest server's parameters has almost no effect.
constexpr int64_t kThin = 10;
// A job with this number of workers per core or more gets a remark. Fewer workers may be a trial, on one
// machine, of a job for several machines.
constexpr int kCrowd = 8;

std::string ServersRemark(const proto::Placement& placement) {
  std::vector<int64_t> elements(placement.servers(), 0);
  int64_t total = 0;
  for (const proto::Shard& shard : placement.shard()) {
    elements[shard.server()] += shard.count();
    total += shard.count();
  }
  const int64_t fullest = elements.empty() ? 0 : *std::max_element(elements.begin(), elements.end());
  const auto servers = static_cast<int64_t>(elements.size());
  const auto empty = std::count(elements.begin(), elements.end(), 0);
  const auto thin = std::count_if(elements.begin(), elements.end(),
                                  [&](int64_t own) { return own > 0 && own * kThin < fullest; });
  if (total == 0 || empty + thin == 0) return "";
  std::vector<std::string> parts;
  if (empty > 0)
    parts.push_back(absl::StrCat(CountText(empty), empty == 1 ? " holds" : " hold", " no parameters"));
  if (thin > 0) {
    int64_t share = 0;
    for (const int64_t own : elements) share += own * kThin < fullest ? own : 0;
    parts.push_back(absl::StrFormat("%s hold%s %.2g %% of the parameters%s", CountText(thin),
                                    thin == 1 ? "s" : "", 100.0 * share / total,
                                    thin == 1 ? "" : " together"));
  }
  return absl::StrCat("of ", CountText(servers), " servers ", parts[0], parts.size() > 1 ? " and " : "",
                      parts.size() > 1 ? parts[1] : "", ": `servers: ", servers - empty - thin, "` does ",
                      thin > 0 ? "nearly " : "",
                      "the same with fewer processes; smaller shards (tuning.partitioner) would be spread "
                      "over all servers");
}

std::string WorkersRemark(const proto::JobPlan& plan) {
  const int64_t workers = plan.job().workers();
  const int64_t samples = EpochLength(plan);
  if (TraitsOf(plan.job()).batches == Batches::kOnDemand) {
    const int64_t rows = std::max<int64_t>(1, plan.batch_per_worker());
    const int64_t batches = (samples + rows - 1) / rows;
    if (workers <= batches) return "";
    return absl::StrCat("an epoch has ", CountText(batches), " batches of ", CountText(rows),
                        " samples: ", CountText(workers - batches), " of ", CountText(workers),
                        " workers get none; use fewer workers or smaller batches");
  }
  const int64_t step = std::min(plan.global_batch(), samples);
  if (workers > step) {
    return absl::StrCat("a step has ", CountText(step), " samples: ", CountText(workers - step), " of ",
                        CountText(workers), " workers get none; use fewer workers or a larger batch");
  }
  if (plan.global_batch() <= samples) return "";
  return absl::StrCat("the global batch of ", CountText(plan.global_batch()), " samples is larger than the ",
                      CountText(samples),
                      " of an epoch, so an epoch is one update; use fewer workers or smaller batches");
}

// Warns if so many workers on CPUs share the cores that each gets a small part of one core.
std::string CoresRemark(const proto::JobPlan& plan, int cores) {
  const int workers = WorkersOn(proto::Device::CPU, plan);
  if (cores <= 0 || workers < kCrowd * cores) return "";
  return absl::StrFormat(
      "%s workers on %s: each worker gets about %.2g %% of one core, and more workers than cores do not "
      "make a step shorter; use fewer workers, or name more machines by --hostfile",
      CountText(workers), PluralText(cores, "core"), 100.0 * cores / workers);
}

}  // namespace

std::vector<std::string> JobRemarks(const proto::JobPlan& plan, int cores) {
  std::vector<std::string> remarks = {ServersRemark(plan.placement()), NormalisationRemark(plan.job())};
  if (plan.train_samples() > 0) remarks.push_back(WorkersRemark(plan));
  remarks.push_back(CoresRemark(plan, cores));
  remarks.insert(remarks.end(), plan.data_note().begin(), plan.data_note().end());
  remarks.erase(std::remove(remarks.begin(), remarks.end(), ""), remarks.end());
  return remarks;
}

}  // namespace tethys
