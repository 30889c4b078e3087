#include "deploy/report/resource_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_split.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void SetRange(double mean, double minimum, double maximum, proto::Range& range) {
  range.set_mean(mean);
  range.set_minimum(minimum);
  range.set_maximum(maximum);
}

void AddUse(const std::string& host, const std::string& process, int cores, double cpu,
            proto::RunSummary& summary) {
  proto::ResourceSummary& line = *summary.add_resources();
  line.set_host(host);
  line.set_process(process);
  line.set_cores(cores);
  SetRange(cpu, cpu - 4, cpu + 4, *line.mutable_cpu_percent());
  SetRange(3 << 20, 2 << 20, 5 << 20, *line.mutable_resident_bytes());
  SetRange(1.5e6, 1e6, 2e6, *line.mutable_network_in_bytes_per_second());
}

// A run on two machines with a CPU load of `cpu` percent of one core.
RunRecord OneRun(int variant, double cpu) {
  RunRecord run{.variant = variant, .run_dir = "runs/r"};
  AddUse("", "", 8, cpu, run.summary);
  AddUse("m", "", 4, cpu / 4, run.summary);
  AddUse("s", "", 4, cpu * 3 / 4, run.summary);
  AddUse("m", "chief", 0, 1, run.summary);
  AddUse("s", "worker 0", 0, 90, run.summary);
  return run;
}

// OneRun with a GPU of the worker, busy for `percent` of the time; the GPU's power is not reported.
RunRecord OneRunOnAGpu(int variant, double percent) {
  RunRecord run = OneRun(variant, 80);
  proto::ResourceSummary& worker = *run.summary.mutable_resources(4);
  SetRange(percent, percent - 30, percent + 10, *worker.mutable_gpu_percent());
  SetRange(2 << 20, 1 << 20, 7 << 20, *worker.mutable_gpu_memory_bytes());
  return run;
}

std::vector<VariantLabel> Labels() {
  return {{"fashion_mnist_mirrored", "mirrored", 6, 0, 128, "global", {}},
          {"fashion_mnist_ps_async", "ps_async", 6, 2, 768, "push", {}}};
}

// The cells of the first line of `text` that has a cell `word`.
std::vector<std::string> Row(const std::string& text, const std::string& word) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> cells = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (std::find(cells.begin(), cells.end(), word) != cells.end()) return cells;
  }
  return {};
}

TEST(ResourceTablesTest, TableShowsMeanMaximumAndTheUseByTheJobAlone) {
  const std::vector<RunRecord> runs = {OneRun(0, 80)};
  EXPECT_THAT(Row(ResourceTables(Labels(), {}, runs), "mirrored"),
              ::testing::ElementsAre("A", "mirrored", "mirrored", "128", "8", "10.0", "10.5", "11.4", "3",
                                     "5", "6", "1.5", "2.0", "0.0", "0.0"));
}

TEST(ResourceTablesTest, TableAveragesMeansOfRepeatsAndKeepsExtremes) {
  const std::vector<RunRecord> runs = {OneRun(0, 80), OneRun(0, 160)};
  const std::vector<std::string> row = Row(ResourceTables(Labels(), {}, runs), "mirrored");
  ASSERT_GT(row.size(), 7);
  EXPECT_EQ(row[5], "15.0");
  EXPECT_EQ(row[6], "20.5");
}

TEST(ResourceTablesTest, ShowsLoadAndProcessesOfEachMachine) {
  const std::vector<RunRecord> runs = {OneRun(1, 80)};
  const std::string text = ResourceTables(Labels(), {}, runs);
  EXPECT_THAT(text, HasSubstr("Load of each machine"));
  EXPECT_THAT(Row(text, "chief"), ::testing::Contains("5.0"));
  EXPECT_THAT(text, HasSubstr("worker 0"));
}

TEST(ResourceTablesTest, OneMachineHasOneTable) {
  RunRecord run{.variant = 0, .run_dir = "runs/r"};
  AddUse("", "", 4, 80, run.summary);
  AddUse("m", "", 4, 80, run.summary);
  AddUse("m", "worker 0", 0, 60, run.summary);
  const std::string text = ResourceTables(Labels(), {}, {&run, 1});
  EXPECT_THAT(text, ::testing::StartsWith("The machine: "));
  EXPECT_THAT(text, Not(HasSubstr("Load of each machine")));
}

TEST(ResourceTablesTest, HasGpuColumnsIfAnyRunReportsGpu) {
  EXPECT_THAT(ResourceTables(Labels(), {}, {{OneRun(0, 80)}}), Not(HasSubstr("GPU")));
  const std::vector<RunRecord> runs = {OneRunOnAGpu(0, 50), OneRunOnAGpu(0, 60), OneRun(1, 80)};
  const std::string text = ResourceTables(Labels(), {}, runs);
  const std::vector<std::string> with = Row(text, "mirrored"), without = Row(text, "ps_async");
  ASSERT_EQ(with.size(), 21);
  ASSERT_EQ(without.size(), 21);
  const auto last = [](const std::vector<std::string>& row) {
    return std::vector<std::string>(row.end() - 6, row.end());
  };
  EXPECT_THAT(last(with), ::testing::ElementsAre("55.0", "70.0", "2", "7", "-", "-"));
  EXPECT_THAT(last(without), ::testing::Each("-"));
}

TEST(ResourceTablesTest, TablesAreEmptyWithoutSamples) {
  const std::vector<RunRecord> runs = {{.variant = 0, .run_dir = "runs/r"}};
  EXPECT_EQ(ResourceTables(Labels(), {}, runs), "");
}

TEST(ResourceTablesTest, FailedRunsAreLeftOut) {
  RunRecord failed = OneRun(0, 80);
  failed.status = absl::AbortedError("lost");
  const std::vector<RunRecord> runs = {failed, OneRun(1, 80)};
  EXPECT_THAT(ResourceTables(Labels(), {}, runs), Not(HasSubstr("mirrored")));
}

TEST(ResourceCsvTest, HasLinesForClusterMachinesAndProcesses) {
  const std::vector<RunRecord> runs = {OneRunOnAGpu(0, 50)};
  const std::vector<std::string> lines =
      absl::StrSplit(ResourceCsv(Labels(), {}, runs), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 6);
  EXPECT_THAT(lines[0], HasSubstr("host,process,cores,samples,cpu_percent_mean,cpu_percent_minimum"));
  EXPECT_THAT(lines[4], ::testing::EndsWith(",0,,,,,,,,,")) << "the chief has no GPU";
  EXPECT_THAT(lines[5], HasSubstr(",s,worker 0,0,0,90,86,94,3145728,"));
  EXPECT_THAT(lines[5], ::testing::EndsWith(",50,20,60,2097152,1048576,7340032,,,"));
  const std::vector<std::string> header = absl::StrSplit(lines[0], ',');
  for (const std::string& line : lines) {
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(line, ',')).size(), header.size());
  }
}

}  // namespace
}  // namespace tethys
