// The data of a report, from the files that runs left: summary.json, epochs.csv, resources.csv, steps.csv.
// Blocking; any thread.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_DATA_H_
#define TETHYS_DEPLOY_REPORT_REPORT_DATA_H_

#include <string>

#include "absl/types/optional.h"
#include "proto/report.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// `path` is the directory of a run, or of a comparison, whose runs lie in it as NAME-rN: runs that differ in
// N only are one variant. Times to accuracy are to `given_target`, or else to one that is chosen
// (comparison.h). What a run lacks is listed in the report, not an error. NotFound: no run has ended there.
// FailedPrecondition: the runs there are of different models or data, and no comparison made them together.
// `program`: what makes the report, as it calls itself.
absl::StatusOr<proto::Report> CollectReport(const std::string& path,
                                            absl::optional<double> given_target = absl::nullopt,
                                            const std::string& program = "");

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_DATA_H_
