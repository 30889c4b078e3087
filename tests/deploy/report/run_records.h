// Records of runs, from which tests compute means, tables and targets.
#ifndef TETHYS_TESTS_DEPLOY_REPORT_RUN_RECORDS_H_
#define TETHYS_TESTS_DEPLOY_REPORT_RUN_RECORDS_H_

#include <vector>

#include "deploy/report/run_means.h"

namespace tethys::testing {

inline RunRecord OneRun(int variant, int repeat, double accuracy, double seconds) {
  RunRecord run{
      .variant = variant, .repeat = repeat, .seed = static_cast<uint64_t>(repeat), .run_dir = "runs/r"};
  run.summary.mutable_test()->set_accuracy(accuracy);
  run.summary.mutable_timing()->set_training_seconds(seconds);
  run.summary.mutable_timing()->set_samples_per_second(54000 / seconds);
  run.summary.mutable_communication()->set_exposed_share(0.25);
  run.summary.mutable_communication()->set_bytes_out_per_step(407080);
  run.summary.mutable_communication()->set_bytes_in_per_step(407080);
  run.summary.mutable_communication()->set_mean_staleness(variant);
  return run;
}

inline RunRecord FailedRun(int variant, int repeat) {
  RunRecord run{.variant = variant, .repeat = repeat, .run_dir = "runs/ps-r0"};
  run.status = absl::AbortedError("worker 1 on host, killed\n  more");
  return run;
}

// Adds an epoch for each validation accuracy; the epochs end one second apart.
inline RunRecord WithCourse(RunRecord run, const std::vector<double>& accuracies) {
  for (const double accuracy : accuracies) {
    proto::EpochPoint& epoch = run.epochs.emplace_back();
    epoch.set_seconds(static_cast<double>(run.epochs.size()));
    epoch.set_validation_accuracy(accuracy);
  }
  return run;
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_DEPLOY_REPORT_RUN_RECORDS_H_
