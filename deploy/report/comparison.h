// `tethys compare` without its processes: which runs there are, in which order, and what their summaries say
// together. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_COMPARISON_H_
#define TETHYS_DEPLOY_REPORT_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/report.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// --vary=FIELD=V1,V2
struct Variation {
  std::string field;
  std::vector<std::string> values;
};
// InvalidArgument: no field, no value, an empty or repeated value.
absl::StatusOr<Variation> ParseVariation(const std::string& text);

// A job file with one value per variation: a row of the table.
struct Variant {
  int job = 0;  // Index of the job file.
  std::vector<std::string> values;
};
// All combinations: by job file, then the last variation fastest.
std::vector<Variant> AllVariants(int jobs, absl::Span<const Variation> variations);

// FIELD=VALUE for each variation.
std::vector<std::string> VariantOverrides(const Variant& variant, absl::Span<const Variation> variations);

// The value of a variation that a job was left out of: its field is of another strategy.
extern const char kNotVaried[];

// What became of one run.
struct RunRecord {
  int variant = 0;
  int repeat = 0;
  uint64_t seed = 0;
  std::string run_dir = {};
  absl::Status status = {};  // Not OK: it failed, and the summary is not used.
  proto::RunSummary summary = {};
  std::vector<proto::EpochPoint> epochs = {};  // Ends of epochs, in order.
};

// How long a run took, start-up and end included.
struct RunTime {
  int variant = 0;
  double seconds = 0;
};
// What the runs to come, of these variants, will take: each as long as those of its variant in the mean, or
// where none was made yet as those of all. Absent: none was made at all.
absl::optional<double> SecondsLeft(absl::Span<const RunTime> made, absl::Span<const int> to_come);

// The target of a comparison's times to accuracy (time_to_accuracy.h): the one given, else the one that all
// runs that succeeded have in common. Absent: none was validated.
using Target = absl::optional<proto::AccuracyTarget>;
Target TargetOf(absl::Span<const RunRecord> runs, absl::optional<double> given);

// Sample mean and deviation (n - 1 in the denominator; 0 for one value).
struct Spread {
  int count = 0;
  double mean = 0;
  double deviation = 0;
};
Spread SpreadOf(absl::Span<const double> values);

// The runs of one variant that succeeded.
struct Aggregate {
  int runs = 0;  // Tried.
  int failed = 0;
  Spread accuracy;  // On the test split; none where there is no such split.
  Spread seconds;   // Training.
  Spread samples_per_second;
  Spread exposed_share;
  Spread bytes_per_step;  // Sent and received, a worker.
  Spread staleness;
  Spread run_cost;  // None where no price is known.
  Spread epoch_cost;
  Spread others_cpu;    // summary.proto; in [0, 1].
  Spread step_seconds;  // Of a worker's training time, in the mean: these three.
  Spread compute_seconds;
  Spread exchange_seconds;
  Spread best_accuracy;   // On the validation split; its count is that of the runs that were validated.
  Spread target_seconds;  // To the target, of those that reached it: these three.
  Spread target_epochs;
  Spread target_cost;
};
Aggregate AggregateRuns(absl::Span<const RunRecord> runs, int variant, const Target& target);

// A variant as it is shown: from its resolved job.
struct VariantLabel {
  std::string job;
  std::string strategy;
  int64_t workers = 0;
  int64_t servers = 0;
  int64_t global_batch = 0;
  std::string gradient_scale;  // "global", "push".
  std::vector<std::string> values;
};

// What all names of jobs begin with, up to and including a separator: tables say it once, above.
std::string CommonPrefix(absl::Span<const VariantLabel> labels);
// The last part of a field's path, broken at underscores into lines of a table's heading.
std::vector<std::string> FieldHeader(const std::string& field);

// How a mirrored run exchanged gradients, without the reason: "shared memory among 3 workers". Empty under
// other strategies.
std::string ExchangeOf(const proto::RunSummary& summary);
// "2 by shared memory among 3 workers, 1 by TCP among 3 workers"; empty where all are alike.
std::string DifferentExchanges(absl::Span<const std::string> exchanges);

// The columns of the CSV files, and a variant's cells in them.
std::vector<std::string> LabelHeader(absl::Span<const Variation> variations);
std::vector<std::string> LabelCells(const VariantLabel& label);
// More digits than any measurement here has.
std::string NumberCell(double value);

// A row per variant, ± the standard error of the mean; below, variants whose runs did not exchange gradients
// alike, and what failed. `width`: of a terminal, into which the table is cut (Table in text.h); 0: any.
std::string ComparisonTable(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                            absl::Span<const RunRecord> runs, int width = 0);

// A row per variant: what it took to get to the target, under a line that says what is shown. Empty without
// a target.
std::string TargetTable(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs, const Target& target, int width = 0);

// A line per run and one per variant, told apart by the first column.
std::string ComparisonCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                          absl::Span<const RunRecord> runs, const Target& target);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_COMPARISON_H_
