// The pure part of `tethys compare`: the runs to make, their order, and the tables made from their summaries.
// Any thread.
#ifndef TETHYS_DEPLOY_REPORT_COMPARISON_H_
#define TETHYS_DEPLOY_REPORT_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "deploy/report/run_means.h"
#include "runtime/base/status.h"

namespace tethys {

// The flag --vary=FIELD=V1,V2: a field of the job, and the values to give it in turn.
struct Variation {
  std::string field;
  std::vector<std::string> values;
};
// InvalidArgument: the field or the values are missing, or a value is empty or repeated.
absl::StatusOr<Variation> ParseVariation(const std::string& text);

// A row of the table: a job file with one value for each variation.
struct Variant {
  int job = 0;  // Index of the job file.
  std::vector<std::string> values;
};
// All combinations of job files and values, in the order of the job files; the value of the last variation
// changes fastest.
std::vector<Variant> AllVariants(int jobs, absl::Span<const Variation> variations);

// The overrides that make a variant of its job file: FIELD=VALUE for each variation.
std::vector<std::string> VariantOverrides(const Variant& variant, absl::Span<const Variation> variations);

// The value shown for a job to which a variation does not apply, because the varied field belongs to another
// strategy.
extern const char kNotVaried[];

// The duration of a run, start-up and end included.
struct RunTime {
  int variant = 0;
  double seconds = 0;
};
// Estimates the total seconds of the remaining runs, whose variants are `to_come`. A run's estimate is the
// mean time of its variant's finished runs or, if its variant has none, of all finished runs. nullopt: no run
// has finished.
absl::optional<double> SecondsLeft(absl::Span<const RunTime> made, absl::Span<const int> to_come);

// A variant as tables show it, taken from its resolved job.
struct VariantLabel {
  std::string job;
  std::string strategy;
  int64_t workers = 0;
  int64_t servers = 0;
  int64_t global_batch = 0;
  std::string gradient_scale;  // "global" or "push".
  std::vector<std::string> values;
};

// The common prefix of all jobs' names, up to and including a separator. Tables show it once, above their
// rows.
std::string CommonPrefix(absl::Span<const VariantLabel> labels);
// The last part of a field's path, broken at underscores into the lines of a table's heading.
std::vector<std::string> FieldHeader(const std::string& field);

// How the workers of a mirrored run exchange gradients, without the reason for it: "shared memory among 3
// workers". Empty for other strategies.
std::string ExchangeOf(const proto::RunSummary& summary);
// Counts the different `exchanges`: "2 by shared memory among 3 workers, 1 by TCP among 3 workers". Empty if
// all are equal.
std::string DifferentExchanges(absl::Span<const std::string> exchanges);

// The first columns of the CSV files, and a variant's cells in them.
std::vector<std::string> LabelHeader(absl::Span<const Variation> variations);
std::vector<std::string> LabelCells(const VariantLabel& label);
// The text of a number in a CSV cell, with more digits than any measurement in the file has.
std::string NumberCell(double value);

// A table with a row per variant: the letters of the variant (variant_name.h) and its means, each with ± half
// of its 95 % interval. Lines below the table name variants whose runs exchanged gradients differently, and
// failed runs. `width`: the terminal's width, to which the table is cut (Table in text.h); 0: no limit.
std::string ComparisonTable(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                            absl::Span<const RunRecord> runs, int width = 0);

// A table under a caption, with a row per variant: the time, epochs and cost until the target accuracy was
// reached. Empty without a target.
std::string TargetTable(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs, const Target& target, int width = 0);

// A line per run and a line per variant, distinguished by the first column.
std::string ComparisonCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                          absl::Span<const RunRecord> runs, const Target& target);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_COMPARISON_H_
