// The analysis of study 2, a comparison of cloud GPU instances by iteration time: how well TMiAvg, the mean
// time of all iterations but the first, represents total times, and how well the first iterations represent
// TMiAvg. runtime/telemetry/timing_analysis.h defines TMiAvg and its estimates. Pure; any thread.
#ifndef TETHYS_DEPLOY_STUDY_TMI_STUDY_H_
#define TETHYS_DEPLOY_STUDY_TMI_STUDY_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/study.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

// The times of one run.
struct TmiRun {
  int cell = 0;
  double tmi_avg = 0;
  double beta = 0;
  double first_iteration = 0;
  double total_seconds = 0;
  // The relative error of each estimate of TMiAvg: |estimate - TMiAvg| / TMiAvg. The key "2-6" stands for the
  // estimate from iterations 2 to 6.
  std::map<std::string, double> error;
};

// nullopt: the run is too short for TMiAvg. `steps_csv`: the text of the run's steps.csv, for the median of
// iterations 2-101; may be empty.
absl::optional<TmiRun> TmiRunOf(int cell, const proto::RunSummary& summary, absl::string_view steps_csv);

// The median time of iterations 2-101 of the first epoch. `together`: the workers run in lock step, so the
// time of an iteration is the time of the slowest worker. Without `together`, the iterations of all workers
// count separately. nullopt: there are fewer than 20 iterations.
absl::optional<double> MedianOfFirstIterations(absl::string_view steps_csv, bool together);

// A row for each cell that has runs, in the order of cells: means over runs, and the deviations of the
// errors.
std::vector<proto::TmiRow> TmiRows(absl::Span<const TmiRun> runs);

// Compares how TMiAvg and total time rank the cells of a group: environments that ran with the same batch.
proto::TmiOrder OrderOf(const std::string& group, absl::Span<const proto::TmiRow> rows);

// Kendall's tau-b of two rankings of equal length, in [-1, 1]; 0 for fewer than two values, or if all values
// of one ranking are equal.
double KendallTau(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_TMI_STUDY_H_
