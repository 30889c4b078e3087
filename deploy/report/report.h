// report.html and report.md: the results of runs, for a reader who did not make the runs. The page contains
// its data and the plotting library, and opens without a network. Rendering is pure; WriteReport blocks.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_H_
#define TETHYS_DEPLOY_REPORT_REPORT_H_

#include <string>

#include "proto/report.pb.h"
#include "runtime/base/status.h"

namespace tethys {

std::string ReportHtml(const proto::Report& report);
std::string ReportMarkdown(const proto::Report& report);

// Writes both files into `path`, the directory of the run or comparison. Fails if a file cannot be written.
absl::Status WriteReport(const proto::Report& report, const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_H_
