// Reads a run's resources.csv and steps.csv for a report. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_SERIES_H_
#define TETHYS_DEPLOY_REPORT_REPORT_SERIES_H_

#include "absl/strings/string_view.h"
#include "proto/report.pb.h"

namespace tethys {

// Adds the machines of a resources.csv, with their use during training. Requires that the variant has its
// summary.
void AddMachines(absl::string_view text, proto::ReportVariant& variant);
// Adds the GPU load of each process whose GPU reports its load.
void AddGpus(absl::string_view text, proto::ReportVariant& variant);
// Adds the mean times of each rank's steps in a steps.csv.
void AddRanks(absl::string_view text, proto::ReportVariant& variant);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_SERIES_H_
