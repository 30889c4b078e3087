// Time to accuracy, by which MLPerf and DAWNBench compare training systems: the training time until the
// validation accuracy reaches a target. Accuracy is known at the ends of epochs only; the end of the
// first epoch that reached the target counts, and nothing is interpolated. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_TIME_TO_ACCURACY_H_
#define TETHYS_DEPLOY_REPORT_TIME_TO_ACCURACY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/report.pb.h"

namespace tethys {

// Parses a run's epochs.csv into one point for each end of an epoch, in order. Files of old builds still
// contain the lines of epochs that a resumed attempt repeated. So a line replaces all earlier lines of its
// own epoch and of later epochs.
std::vector<proto::EpochPoint> ParseEpochs(absl::string_view csv);

// The best validation accuracy; nullopt: the run was never validated.
absl::optional<double> BestAccuracy(absl::Span<const proto::EpochPoint> epochs);

struct Reached {
  double seconds = 0;  // The training time until the end of the epoch.
  int epochs = 0;
};
// The end of the first epoch whose validation accuracy is at or above `target`; nullopt: no epoch reached it.
absl::optional<Reached> FirstAtOrAbove(double target, absl::Span<const proto::EpochPoint> epochs);

// The target used if none is given: the highest integer percentage that all accuracies in `best` reach.
// nullopt: `best` is empty, or an accuracy in it is below 1 %.
absl::optional<double> CommonTarget(absl::Span<const double> best);

// The target in words: "85 % validation accuracy" and, if the target was not given, how it was chosen.
std::string TargetText(const proto::AccuracyTarget& target);

// The explanation of intervals of the time to an accuracy, for lines below tables.
inline constexpr char kCutNote[] =
    "Intervals of these means are cut at the end of the first epoch and at the end of the job's training, "
    "because beyond these the job trains no epoch.";

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_TIME_TO_ACCURACY_H_
