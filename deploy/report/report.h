// report.html and report.md: what runs found, for somebody who was not there. The page holds its data and the
// plotting library itself, and opens without a network. Rendering is pure; WriteReport blocks.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_H_
#define TETHYS_DEPLOY_REPORT_REPORT_H_

#include <string>

#include "proto/report.pb.h"
#include "runtime/base/status.h"

namespace tethys {

std::string ReportHtml(const proto::Report& report);
std::string ReportMarkdown(const proto::Report& report);

// Writes both beside what they are of. Errors of writing.
absl::Status WriteReport(const proto::Report& report, const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_H_
