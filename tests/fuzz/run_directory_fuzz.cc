// Input: the files of a run directory, from which a report and a trace are made. A line "---" separates
// files:
//
//   summary.json --- epochs.csv --- steps.csv --- resources.csv --- job.textproto --- journal
//
// Any of these files may have been left by a killed run or by another tool.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <map>
#include <string>

#include "deploy/report/report.h"
#include "deploy/report/report_data.h"
#include "deploy/report/trace.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/summary.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/testing/temp_directory.h"

namespace tethys::fuzz {
namespace {

void RequireJson(const std::string& text) {
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &parsed);
  Require(status.ok(), absl::StrCat("JSON is written: ", status.ToString(), "\n", text));
}

}  // namespace

void FuzzRunDirectory(absl::string_view input) {
  static const testing::TempDirectory directory;
  std::map<std::string, std::string> files;
  for (const char* name : {"summary.json", "epochs.csv", "steps.csv", "resources.csv", "job.textproto"}) {
    files[name] = std::string(TakeSection(input));
    directory.Write(name, files[name]);
  }
  const std::string journal(TakeSection(input));
  const absl::StatusOr<proto::Report> report = CollectReport(directory.path());
  if (!report.ok()) return RequireRefusal(report.status(), directory.path());
  Require(!ReportMarkdown(*report).empty() && !ReportHtml(*report).empty(), "a report is written");
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(directory.path());
  Require(summary.ok(), "what a report is made of can be read");
  RequireJson(ChromeTrace({.steps_csv = files["steps.csv"],
                           .epochs_csv = files["epochs.csv"],
                           .resources_csv = files["resources.csv"],
                           .journal = journal},
                          *summary));
}

}  // namespace tethys::fuzz
