// The combinations of strategy, workers and servers that `tethys compare --strategies` makes from one job.
// Pure; any thread.
#ifndef TETHYS_DEPLOY_EXPERIMENT_STRATEGY_SHAPES_H_
#define TETHYS_DEPLOY_EXPERIMENT_STRATEGY_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

// A combination of strategy, workers and servers, as overrides of a job file.
struct StrategyShape {
  std::string strategy;                // "mirrored", "ps_sync", as StrategyName.
  std::string name;                    // "mirrored-4", "ps_sync-4x2"; part of a directory's name.
  std::vector<std::string> overrides;  // The changes to the job file, each as FIELD=VALUE.
};
struct StrategyShapes {
  std::vector<StrategyShape> shapes;
  std::vector<std::string> left_out;  // A line for each kind of combination that was left out as meaningless.
};

// The changes that give a job this shape. 0 workers or servers: the job's own number.
std::vector<std::string> ShapeOverrides(const JobShape& shape);

// `strategies`: "all", or names by StrategyName, separated by commas. `workers`, `servers`: numbers and
// ranges, "1-4,8"; empty: the job's own number. InvalidArgument quotes what is wrong.
absl::StatusOr<StrategyShapes> ShapesOf(const std::string& strategies, const std::string& workers,
                                        const std::string& servers);

// Numbers and ranges: "1-4,8" gives 1, 2, 3, 4, 8. InvalidArgument: a part is no number, reversed, repeated,
// below 1 or above 4096, or there are more than 4096 numbers in all; the message begins with `flag`.
absl::StatusOr<std::vector<int>> ParseNumbers(const std::string& flag, const std::string& text);

// Speed-up and efficiency of a variant against a baseline.
struct Scaling {
  double speed_up = 0;    // Samples per second, divided by the baseline's; 0: not known.
  double efficiency = 0;  // The speed-up, divided by the ratio of the workers to the baseline's workers.
};
struct ScalingInput {
  JobStrategy strategy;
  int64_t workers = 0;
  double samples_per_second = 0;  // The variant's mean rate; 0: no run has succeeded.
};
// The baseline is, among the variants with a known rate, the variant with the fewest workers. If several
// variants have the fewest workers, it is the first local variant among them or, if none is local, the first
// of them. `baseline` is the index of the baseline, or -1 if all variants have the same number of workers or
// no rate is known.
std::vector<Scaling> ScalingOf(absl::Span<const ScalingInput> variants, int& baseline);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_EXPERIMENT_STRATEGY_SHAPES_H_
