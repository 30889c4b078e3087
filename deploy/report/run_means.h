// The results of runs, and their means over the runs of a variant. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_RUN_MEANS_H_
#define TETHYS_DEPLOY_REPORT_RUN_MEANS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/report.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The result of one run.
struct RunRecord {
  int variant = 0;
  int repeat = 0;
  uint64_t seed = 0;
  std::string run_dir = {};
  absl::Status status = {};  // If not OK, the run failed, and the summary is unused.
  proto::RunSummary summary = {};
  std::vector<proto::EpochPoint> epochs = {};  // Ends of epochs, in order.
};

// The target of a comparison's times to accuracy (time_to_accuracy.h): `given` or, without it, the
// CommonTarget of all successful runs. nullopt: no run was validated, or the runs have no common target.
using Target = absl::optional<proto::AccuracyTarget>;
Target TargetOf(absl::Span<const RunRecord> runs, absl::optional<double> given);

// The values' mean, sample deviation (n - 1 in the denominator; 0 for one value) and 95 % interval on
// `scale`.
proto::ReportValue MeanOf(absl::Span<const double> values,
                          proto::ReportValue::Scale scale = proto::ReportValue::POSITIVE);

// Means over the successful runs of `variant`. Sets only the numbers of runs, every ReportValue and, if there
// is a target, to_target.
proto::ReportVariant MeansOver(absl::Span<const RunRecord> runs, int variant, const Target& target);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RUN_MEANS_H_
