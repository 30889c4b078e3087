#include "deploy/report/normalisation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "deploy/text.h"
#include "runtime/job/job.h"
#include "runtime/nn/zoo/zoo.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// True if a layer normalises by its batch. Frozen layers do not count: they normalise by moving statistics.
bool Normalises(const proto::Job& job) {
  const proto::Model model = ExpandModel(job.model(), job.data().classes());
  return std::any_of(model.layer().begin(), model.layer().end(), [](const proto::Layer& layer) {
    return layer.has_batch_normalisation() && (!layer.has_trainable() || layer.trainable());
  });
}

bool IsSynchronised(const proto::Job& job) {
  return job.strategy().mirrored().synchronised_batch_normalisation();
}

int64_t CeilingOf(int64_t count, int64_t parts) { return (count + parts - 1) / parts; }

}  // namespace

int64_t NormalisedSamples(const proto::Job& job) {
  if (job.workers() < 1 || !Normalises(job)) return 0;
  const int64_t batch = IsSynchronised(job) ? GlobalBatch(job) : BatchPerWorkerRows(job);
  const int64_t parts = std::max({1, job.micro_batches(), job.strategy().local().virtual_replicas()});
  return CeilingOf(batch, parts);
}

std::string NormalisationRemark(const proto::Job& job) {
  const int64_t together = NormalisedSamples(job);
  const int64_t batch = GlobalBatch(job);
  if (together == 0 || together >= batch) return "";
  std::string why;
  std::string remedy;
  if (job.workers() > 1 && !IsSynchronised(job)) {
    why = absl::StrCat("each of ", CountText(job.workers()), " workers normalises its own samples");
    if (TraitsOf(job).family == StrategyFamily::kMirrored) {
      remedy =
          "; strategy.mirrored.synchronised_batch_normalisation: true normalises the samples of all workers "
          "together";
    }
  }
  const auto add = [&why](const char* field, int64_t parts) {
    if (parts < 2) return;
    absl::StrAppend(&why, why.empty() ? "" : ", and ", field, " is ", CountText(parts));
  };
  add("micro_batches", job.micro_batches());
  add("strategy.local.virtual_replicas", job.strategy().local().virtual_replicas());
  return absl::StrCat("batch normalisation: ", PluralText(together, "sample"), together == 1 ? " is" : " are",
                      " normalised together, not the global batch of ", CountText(batch), ", because ", why,
                      "; for this reason accuracy may differ from training in which the batch is not divided",
                      remedy);
}

std::vector<proto::JobDifference> NormalisationDifference(absl::Span<const proto::Job> jobs) {
  proto::JobDifference difference;
  difference.set_field(kNormalisedTogether);
  bool differ = false;
  for (const proto::Job& job : jobs) {
    const int64_t together = NormalisedSamples(job);
    difference.add_value(together == 0 ? "none" : CountText(together));
    differ = differ || difference.value(0) != *difference.value().rbegin();
  }
  if (!differ) return {};
  return {difference};
}

}  // namespace tethys
