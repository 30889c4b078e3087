#include "deploy/report/trace.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;

constexpr char kSteps[] =
    "rank,step,epoch,samples,begin_ns,data_ns,forward_ns,backward_ns,exchange_ns,update_ns,total_ns,bytes_"
    "out,"
    "staleness\n"
    "0,7,1,128,1000000,1000,2000,3000,4000,0,10500,400,2\n"
    "1,7,1,128,1000500,1000,2000,3000,4000,500,11000,400,0\n";

// The trace's events, as parsed from JSON.
std::vector<google::protobuf::Struct> Events(const std::string& json) {
  google::protobuf::Struct trace;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &trace);
  EXPECT_TRUE(parsed.ok()) << parsed;
  std::vector<google::protobuf::Struct> events;
  for (const auto& event : trace.fields().at("traceEvents").list_value().values()) {
    events.push_back(event.struct_value());
  }
  return events;
}

std::string Text(const google::protobuf::Struct& event, const char* field) {
  return event.fields().at(field).string_value();
}
double Number(const google::protobuf::Struct& event, const char* field) {
  return event.fields().at(field).number_value();
}

TEST(ChromeTraceTest, StepIsSliceWithConsecutivePhases) {
  std::vector<std::string> slices;
  for (const auto& event : Events(ChromeTrace(kSteps, {}))) {
    if (Text(event, "ph") != "X" || Number(event, "pid") != 1) continue;
    slices.push_back(absl::StrCat(Text(event, "name"), " ", Number(event, "ts"), "+", Number(event, "dur")));
  }
  EXPECT_THAT(slices, ElementsAre("step 7 1000+10.5", "data 1000+1", "forward 1001+2", "backward 1003+3",
                                  "exchange 1006+4"));
}

TEST(ChromeTraceTest, RowsAreNamedByWorkerAndEscapedHost) {
  proto::RunSummary summary;
  proto::TaskSummary& task = *summary.add_task();
  task.set_role("worker");
  task.set_index(1);
  task.set_host("a\"b\\\n");
  std::vector<std::string> names;
  for (const auto& event : Events(ChromeTrace(kSteps, summary))) {
    if (Text(event, "ph") != "M") continue;
    names.push_back(event.fields().at("args").struct_value().fields().at("name").string_value());
  }
  EXPECT_THAT(names, ElementsAre("worker 0", "worker 1 on a\"b\\\n"));
}

TEST(ChromeTraceTest, NoStepsMakeAnEmptyTrace) { EXPECT_TRUE(Events(ChromeTrace("", {})).empty()); }

}  // namespace
}  // namespace tethys
