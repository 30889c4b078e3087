// report.html and report.md: what runs found, for somebody who was not there. The page holds its data and the
// plotting library itself, and opens without a network. Rendering is pure; WriteReport blocks.
#ifndef TETHYS_DEPLOY_REPORT_H_
#define TETHYS_DEPLOY_REPORT_H_

#include <string>

#include "absl/types/optional.h"
#include "proto/report.pb.h"
#include "runtime/base/status.h"

namespace tethys {

std::string ReportHtml(const proto::Report& report);
std::string ReportMarkdown(const proto::Report& report);

// Collects what the run or comparison in `path` left, and writes both beside it. Errors of CollectReport and
// of writing.
absl::Status WriteReport(const std::string& path, absl::optional<double> given_target = absl::nullopt);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_H_
