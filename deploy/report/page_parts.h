// The common parts of pages, each of which is one HTML file: their style, the plotting library, and data as
// JSON. A page contains all of these parts, and opens without a network. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_PAGE_PARTS_H_
#define TETHYS_DEPLOY_REPORT_PAGE_PARTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace tethys {

// Returns the template with /*PAGE_STYLE*/, /*PAGE_SCRIPT*/, /*CHART_LIBRARY*/ and /*REPORT_DATA*/ replaced;
// the data is JSON with the names of the .proto file, in which nothing can end the script element around it.
std::string FillPage(absl::string_view page, const google::protobuf::Message& data);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_PAGE_PARTS_H_
