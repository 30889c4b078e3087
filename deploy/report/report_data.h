// The data of a report, from the files of runs: summary.json, epochs.csv, resources.csv, steps.csv. Blocking;
// any thread.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_DATA_H_
#define TETHYS_DEPLOY_REPORT_REPORT_DATA_H_

#include <string>

#include "absl/types/optional.h"
#include "proto/report.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// `path` is the directory of a run, or of a comparison with runs in subdirectories NAME-rN. Runs whose
// directories differ only in N belong to one variant. Times to accuracy use `given_target`; if that is
// nullopt, they use the target that TargetOf chooses (run_means.h). A file that is missing in a run is listed
// in the report and is not an error. `program`: name and version of the program that makes the report.
// NotFound: no run has ended in `path`. FailedPrecondition: the runs have different models or data, and no
// single comparison made them.
absl::StatusOr<proto::Report> CollectReport(const std::string& path,
                                            absl::optional<double> given_target = absl::nullopt,
                                            const std::string& program = "");

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_DATA_H_
