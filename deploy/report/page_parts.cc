#include "deploy/report/page_parts.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_replace.h"
#include "runtime/base/status.h"

// The style, embedded in the program (report_assets.cc).
extern const char tethys_page_style[];
extern const char tethys_page_style_end[];
extern const char tethys_page_script[];
extern const char tethys_page_script_end[];
extern const char tethys_chart_library[];
extern const char tethys_chart_library_end[];

namespace tethys {
namespace {

absl::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

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
  return absl::StrReplaceAll(page,
                             {{"/*PAGE_STYLE*/", Between(tethys_page_style, tethys_page_style_end)},
                              {"/*PAGE_SCRIPT*/", Between(tethys_page_script, tethys_page_script_end)},
                              {"/*CHART_LIBRARY*/", Between(tethys_chart_library, tethys_chart_library_end)},
                              {"/*REPORT_DATA*/", Json(data)}});
}

}  // namespace tethys
