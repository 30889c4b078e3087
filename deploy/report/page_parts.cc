#include "deploy/report/page_parts.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_replace.h"
#include "runtime/base/status.h"

namespace tethys {

// Embedded files (CMakeLists.txt).
absl::string_view PageStyle();
absl::string_view PageScript();
absl::string_view ChartLibrary();

namespace {

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(message, &json, options);
  TETHYS_CHECK(printed.ok(), printed.ToString());
  // The names of hosts and jobs in the JSON must not end the HTML script element around it.
  return absl::StrReplaceAll(json, {{"<", "\\u003c"}});
}

}  // namespace

std::string FillPage(absl::string_view page, const google::protobuf::Message& data) {
  return absl::StrReplaceAll(page, {{"/*PAGE_STYLE*/", PageStyle()},
                                    {"/*PAGE_SCRIPT*/", PageScript()},
                                    {"/*CHART_LIBRARY*/", ChartLibrary()},
                                    {"/*REPORT_DATA*/", Json(data)}});
}

}  // namespace tethys
