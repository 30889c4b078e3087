// The plan of a small job in lock step, which the workers of a test actually train.
#ifndef TETHYS_TESTS_WORKERS_SMALL_PLAN_H_
#define TETHYS_TESTS_WORKERS_SMALL_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/job/job_file.h"
#include "workers/plan_job.h"

namespace tethys::testing {

// A job with batch normalisation on the samples of `idx`, which have five classes. `batch`: the global batch.
// `strategy`: the kind of the strategy, in text format. `more`: further fields of the job, such as its
// optimizer.
inline proto::JobPlan SmallPlan(const proto::Idx& idx, int workers, int64_t batch,
                                const std::string& strategy, const std::string& more) {
  const absl::StatusOr<proto::Job> job = ParseJob(
      absl::StrCat(
          "model { layer { flatten {} } layer { dense { units: 6 } } layer { batch_normalisation {} } "
          "layer { dense { units: 5 } } } data { idx { train_images: '",
          idx.train_images(), "' train_labels: '", idx.train_labels(), "' } classes: 5 } epochs: 1 ",
          "workers: ", workers, " batch_size_per_worker: ", batch / workers,
          " device { threads_per_rank: 1 } strategy { ", strategy, " } ", more),
      "job.textproto", {});
  TETHYS_CHECK(job.ok(), StatusText(job.status()));
  return PlanJob(*job).value();
}

inline proto::JobPlan MirroredPlan(const proto::Idx& idx, int workers, int64_t batch,
                                   const std::string& more) {
  return SmallPlan(idx, workers, batch, "mirrored {}", more);
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_WORKERS_SMALL_PLAN_H_
