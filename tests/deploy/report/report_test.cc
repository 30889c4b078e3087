#include "deploy/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "deploy/report/report_data.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/csv_reader.h"
#include "runtime/telemetry/summary.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReportTest : public ::testing::Test {
 protected:
  // Writes a run's directory as a chief does, with three steps of two ranks.
  std::string MakeRun(const std::string& name, const std::string& status, double seconds) {
    const std::string path = directory_.path() + "/" + name;
    EXPECT_TRUE(CreateDirectories(path).ok());
    proto::RunSummary summary;
    summary.set_job(name);
    summary.set_strategy("mirrored");
    summary.set_workers(2);
    summary.set_global_batch(128);
    summary.set_status(status);
    summary.mutable_timing()->set_training_seconds(seconds);
    summary.mutable_test()->set_accuracy(0.875);
    proto::TaskSummary& task = *summary.add_task();
    task.set_role("worker");
    task.set_index(1);
    task.set_host("</script><b>");
    EXPECT_TRUE(WriteSummary(path, summary).ok());
    Write(
        path + "/epochs.csv",
        "epoch,train_loss,train_accuracy,validation_loss,validation_accuracy,train_seconds,barrier_seconds\n"
        "0,0.5,0.8,,,2,0.5\n1,0.9,0.1,0.1,0.1,9,9\n1,0.4,0.85,0.3,0.9,3,0.5\n");
    Write(path + "/steps.csv",
          "rank,data_ns,forward_ns,backward_ns,exchange_ns\n0,1000,1000,1000,5000\n1,2000,3000,4000,1000\n"
          "1,2000,3000,4000,1000\n1,20");
    Write(path + "/resources.csv",
          "seconds,host,process,cpu_percent,resident_bytes,network_in_bytes,network_out_bytes\n"
          "1,a,,50,1048576,1000000,0\n1,a,worker 0,49,1,1,1\n3,a,,70,1048576,2000000,2000000\n");
    return path;
  }
  static void Write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }

  testing::TempDirectory directory_;
};

TEST_F(ReportTest, ReadsFilesOfRun) {
  const proto::Report report = CollectReport(MakeRun("job", "succeeded", 5)).value();
  ASSERT_EQ(report.variant_size(), 1);
  const proto::ReportVariant& variant = report.variant(0);
  EXPECT_EQ(variant.name(), "mirrored, 2 workers, global batch 128");
  EXPECT_EQ(variant.seconds().mean(), 5);
  EXPECT_EQ(variant.epoch(1).seconds(), 5);
  EXPECT_FALSE(variant.epoch(0).has_validation_loss());
  EXPECT_EQ(variant.rank(1).compute_us(), 9) << "the torn last line is left out";
  ASSERT_EQ(variant.machine_size(), 1) << "processes have no line of their own";
  EXPECT_EQ(variant.machine(0).network_mb_per_second(1), 2);
  EXPECT_EQ(report.missing_size(), 0);
}

TEST_F(ReportTest, ShowsGpusThatProcessesReport) {
  const std::string path = MakeRun("job", "succeeded", 5);
  EXPECT_EQ(CollectReport(path)->variant(0).gpu_size(), 0) << "resources.csv of an older build";
  Write(path + "/resources.csv",
        "seconds,host,process,cpu_percent,gpu_percent,gpu_memory_bytes,gpu_power_watts\n"
        "1,a,,50,,,\n1,a,worker 0,49,75,1048576,412.5\n2,a,worker 0,49,80,1048576,\n");
  const proto::Report report = CollectReport(path).value();
  ASSERT_EQ(report.variant(0).gpu_size(), 1);
  EXPECT_EQ(report.variant(0).gpu(0).process(), "worker 0 on a");
  EXPECT_EQ(report.variant(0).gpu(0).percent(1), 80);
  EXPECT_EQ(report.variant(0).gpu(0).power_watts(0), 412.5);
}

TEST_F(ReportTest, MachineUseIsAveragedOnlyOverTheTimeOfTraining) {
  const std::string path = MakeRun("job", "succeeded", 2.5);
  Write(path + "/resources.csv",
        "seconds,host,process,cpu_percent,resident_bytes,network_in_bytes,network_out_bytes\n"
        "1,a,,50,1,9,9\n1,a,worker 0,49,1,3000000,1000000\n2,a,,70,1,9,9\n2,a,ps 0,40,1,1000000,1000000\n"
        "2,a,worker 0,51,1,1000000,1000000\n"
        "3,a,,200,1,9,9\n3,a,worker 0,200,1,9000000,9000000\n");
  const proto::MachineUse use = CollectReport(path)->variant(0).machine(0).training();
  EXPECT_EQ(use.cpu_percent(), 60);
  EXPECT_EQ(use.job_cpu_percent(), 90);
  EXPECT_EQ(use.job_network_mb_per_second(), 4);
}

TEST_F(ReportTest, MachineUseNeedsSamplesOfHalfTheTraining) {
  const std::string path = MakeRun("job", "succeeded", 30);
  EXPECT_FALSE(CollectReport(path)->variant(0).machine(0).has_training()) << "three seconds of 30";
}

TEST_F(ReportTest, CostsHaveTheirUnit) {
  proto::Report report;
  report.add_variant();
  EXPECT_THAT(ReportMarkdown(report), Not(HasSubstr("currency")));
  report.mutable_variant(0)->mutable_cost()->set_count(1);
  EXPECT_THAT(ReportMarkdown(report), HasSubstr("\nCosts are in the currency of the prices per hour.\n"));
}

TEST_F(ReportTest, TargetIsChosenUnlessGiven) {
  MakeRun("a-r0", "succeeded", 9);
  const proto::Report report = CollectReport(directory_.path()).value();
  EXPECT_EQ(report.target().accuracy(), 0.9);
  EXPECT_EQ(report.variant(0).to_target().reached(), 1);
  EXPECT_EQ(report.variant(0).to_target().epochs().mean(), 2);
  EXPECT_EQ(report.variant(0).run(0).seconds_to_target(), 5);
  EXPECT_THAT(ReportMarkdown(report), HasSubstr("| 1 of 1 | 5 | 2 |"));
  const proto::Report never = CollectReport(directory_.path(), 0.95).value();
  EXPECT_EQ(never.variant(0).to_target().reached(), 0);
  EXPECT_FALSE(never.variant(0).run(0).has_seconds_to_target());
}

TEST_F(ReportTest, ValidationIsListedAsMissingIfATargetIsGivenButNoRunWasValidated) {
  const std::string path = MakeRun("a", "succeeded", 9);
  Write(path + "/epochs.csv", "epoch,train_seconds,validation_loss,validation_accuracy\n0,2,,\n");
  EXPECT_EQ(CollectReport(path)->missing_size(), 0);
  EXPECT_THAT(CollectReport(path, 0.95)->missing(0), HasSubstr("no run was validated"));
}

TEST_F(ReportTest, RunPutAsideByResumedComparisonIsIgnored) {
  MakeRun("a-r0", "succeeded", 9);
  MakeRun("a-r0.old-1", "failed", 1);
  EXPECT_EQ(CollectReport(directory_.path())->variant_size(), 1);
}

TEST_F(ReportTest, RunOfMedianTimeIsShownInDetail) {
  MakeRun("a-r0", "succeeded", 9);
  MakeRun("a-r1", "failed", 1);
  MakeRun("a-r2", "succeeded", 5);
  MakeRun("a-r3", "succeeded", 4);
  EXPECT_EQ(CollectReport(directory_.path())->variant(0).shown_run(), "a-r2");
}

TEST_F(ReportTest, SetupSectionHasOnlyFieldsThatAllRunsShare) {
  Write(MakeRun("a-r0", "succeeded", 9) + "/job.textproto",
        "epochs: 3 model { layer { flatten {} } layer { dense { units: 10 } } }");
  Write(MakeRun("b-r0", "succeeded", 9) + "/job.textproto",
        "epochs: 4 model { layer { flatten {} } layer { dense { units: 10 } } }");
  const proto::Report report = CollectReport(directory_.path()).value();
  ASSERT_EQ(report.setup_size(), 1);
  EXPECT_EQ(report.setup(0), "Model: flatten, dense 10.");
}

TEST_F(ReportTest, RepeatsOfAJobAreOneVariant) {
  MakeRun("a-r0", "succeeded", 4);
  MakeRun("a-r1", "succeeded", 6);
  MakeRun("b-r0", "failed", 1);
  const proto::Report report = CollectReport(directory_.path()).value();
  ASSERT_EQ(report.variant_size(), 2);
  EXPECT_EQ(report.variant(0).runs(), 2);
  EXPECT_EQ(report.variant(0).seconds().mean(), 5);
  EXPECT_EQ(report.variant(0).staleness().count(), 2) << "a mean, and not the shown run's";
  EXPECT_EQ(report.variant(0).run_size(), 2);
  EXPECT_EQ(report.variant(0).run(1).seconds(), 6);
  EXPECT_EQ(report.variant(0).shown_run(), "a-r0") << "of two runs the faster one is shown";
  EXPECT_EQ(report.variant(1).failed(), 1);
  EXPECT_THAT(report.variant(1).name(), HasSubstr("(b)")) << "names are unlike";
}

TEST_F(ReportTest, MissingFileOfARunIsListedInTheReport) {
  const std::string path = MakeRun("job", "succeeded", 5);
  ASSERT_TRUE(RemoveRecursively(path + "/resources.csv").ok());
  const proto::Report report = CollectReport(path).value();
  ASSERT_EQ(report.missing_size(), 1);
  EXPECT_THAT(report.missing(0), HasSubstr("resources.csv"));
  EXPECT_THAT(CollectReport("/nowhere").status().message(), HasSubstr("/nowhere"));
}

TEST_F(ReportTest, PageIsSelfContainedAndNamesCannotBreakIt) {
  const std::string html = ReportHtml(CollectReport(MakeRun("job", "succeeded", 5)).value());
  EXPECT_THAT(html, HasSubstr("Chart.js v")) << "the library is in it, with its licence";
  EXPECT_THAT(html, HasSubstr("\\u003c/script"));
  EXPECT_THAT(html, Not(HasSubstr("</script><b>")));
  for (const char* placeholder :
       {"/*REPORT_DATA*/", "/*ANSWER_SCRIPT*/", "/*PAGE_STYLE*/", "/*PAGE_SCRIPT*/"}) {
    EXPECT_THAT(html, Not(HasSubstr(placeholder)));
  }
  EXPECT_THAT(html, Not(HasSubstr("src=\"http")));
}

constexpr char kSmallJob[] =
    "model { layer { dense { units: 10 } } } data { classes: 10 } workers: 2 batch_size_per_worker: 64 "
    "strategy { mirrored {} } optimizer { learning_rate: 0.1 sgd {} }";

TEST_F(ReportTest, ListsDifferencesBetweenJobs) {
  Write(MakeRun("a-r0", "succeeded", 9) + "/job.textproto", kSmallJob);
  Write(MakeRun("b-r0", "succeeded", 9) + "/job.textproto", std::string(kSmallJob) + " max_steps: 5");
  const proto::Report report = CollectReport(directory_.path()).value();
  ASSERT_EQ(report.difference_size(), 1);
  EXPECT_EQ(report.difference(0).field(), "max_steps");
  EXPECT_EQ(report.variant(1).short_name(), "2 mirrored workers, max_steps 5");
  EXPECT_EQ(report.variant(0).chance_accuracy(), 0.1);
  EXPECT_THAT(ReportMarkdown(report), HasSubstr("| max_steps | none | 5 |"));
  EXPECT_THAT(report.title(), HasSubstr("not made together"));
}

TEST_F(ReportTest, VariantsHaveTheLettersOfTheComparisonsTables) {
  for (const char* name : {"a-r0", "b-r0", "b-r1", "c-r0"}) MakeRun(name, "succeeded", 9);
  EXPECT_EQ(CollectReport(directory_.path())->variant(2).label(), "C")
      << "without a comparison, by directory";
  Write(directory_.path() + "/comparison.csv",
        "kind,variant,run_dir\nrun,B,runs/x/b-r0\nrun,A,runs/x/c-r0\nmean,A,\nrun,nonsense,runs/x/a-r0\n");
  const proto::Report report = CollectReport(directory_.path()).value();
  std::vector<std::string> letters;
  for (const proto::ReportVariant& variant : report.variant()) {
    letters.push_back(absl::StrCat(variant.label(), " ", variant.shown_run()));
  }
  EXPECT_THAT(letters, ElementsAre("A c-r0", "B b-r0", "C a-r0"))
      << "a variant that is not listed comes last";
}

TEST_F(ReportTest, LettersAreReadBehindQuotedCsvCells) {
  for (const char* name : {"a-r0", "b-r0", "c-r0"}) MakeRun(name, "succeeded", 9);
  Write(directory_.path() + "/comparison.csv",
        absl::StrCat(CsvLine({"kind", "variant", "through", "run_dir", "error"}),
                     CsvLine({"run", "B", "TCP, memory", "runs/x/a-r0", ""}),
                     CsvLine({"run", "A", "TCP", "runs/x/c-r0", ""}),
                     CsvLine({"run", "C", "", "runs/x/b-r0", "lost worker 1, on \"vm\"\n  log"})));
  const proto::Report report = CollectReport(directory_.path()).value();
  std::vector<std::string> letters;
  for (const proto::ReportVariant& variant : report.variant()) {
    letters.push_back(absl::StrCat(variant.label(), " ", variant.shown_run()));
  }
  EXPECT_THAT(letters, ElementsAre("A c-r0", "B a-r0", "C b-r0"));
}

TEST_F(ReportTest, NumberOfSamplesNormalisedTogetherIsADifference) {
  constexpr char kModel[] =
      "model { layer { batch_normalisation {} } layer { dense { units: 10 } } } data { classes: 10 } "
      "global_batch_size: 16 optimizer { learning_rate: 0.1 sgd {} } ";
  Write(MakeRun("a-r0", "succeeded", 9) + "/job.textproto",
        absl::StrCat(kModel, "strategy { local {} } workers: 1"));
  Write(MakeRun("b-r0", "succeeded", 9) + "/job.textproto",
        absl::StrCat(kModel, "strategy { mirrored {} } workers: 8"));
  Write(MakeRun("c-r0", "succeeded", 9) + "/job.textproto",
        absl::StrCat(kModel, "strategy { mirrored { synchronised_batch_normalisation: true } } workers: 8"));
  Write(MakeRun("d-r0", "succeeded", 9) + "/job.textproto",
        absl::StrCat(kModel, "strategy { local { virtual_replicas: 8 } } workers: 1"));
  Write(MakeRun("e-r0", "succeeded", 9) + "/job.textproto",
        absl::StrCat(kModel, "strategy { local {} } workers: 1 micro_batches: 4"));
  const proto::Report report = CollectReport(directory_.path()).value();
  const proto::JobDifference& difference = *report.difference().rbegin();
  EXPECT_EQ(difference.field(), "samples normalised together");
  EXPECT_THAT(difference.value(), ElementsAre("16", "2", "16", "2", "4"));
  EXPECT_THAT(ReportMarkdown(report),
              HasSubstr("Batch normalisation computes mean and variance over the samples"));
}

TEST_F(ReportTest, SingleVariantHasNoLetters) {
  const proto::Report report = CollectReport(MakeRun("job", "succeeded", 5)).value();
  EXPECT_EQ(report.variant(0).label(), "");
  EXPECT_THAT(report.verdict(0), StartsWith("This job trained in 5 s"));
}

TEST_F(ReportTest, RecommendedVariantIsNamedByItsLetters) {
  for (const char* name : {"a-r0", "a-r1", "a-r2"}) MakeRun(name, "succeeded", 9);
  for (const char* name : {"b-r0", "b-r1"}) MakeRun(name, "succeeded", 5);
  MakeRun("c-r0", "succeeded", 4);
  EXPECT_EQ(CollectReport(directory_.path())->choice(), "B") << "a single run is not recommended";
  ASSERT_TRUE(RemoveRecursively(directory_.path() + "/b-r1").ok());
  EXPECT_EQ(CollectReport(directory_.path())->choice(), "") << "only one variant is repeated";
}

TEST_F(ReportTest, RunsOfDifferentModelsAreRefusedOutsideAComparison) {
  Write(MakeRun("a-r0", "succeeded", 9) + "/job.textproto", kSmallJob);
  Write(MakeRun("b-r0", "succeeded", 9) + "/job.textproto",
        "model { layer { dense { units: 20 } } } data { classes: 20 }");
  const absl::Status refused = CollectReport(directory_.path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("runs of different models or data (their jobs differ in model.layer[0].dense.units, "
                        "data.classes)"));
  Write(directory_.path() + "/comparison.csv", "");
  EXPECT_TRUE(CollectReport(directory_.path()).ok());
}

TEST_F(ReportTest, UnfinishedRunShowsItsProgress) {
  const proto::Report report = CollectReport(MakeRun("a", "interrupted", 9)).value();
  EXPECT_THAT(report.verdict(0), HasSubstr("This run was interrupted after"));
  EXPECT_EQ(report.variant(0).epoch_size(), 2);
}

TEST_F(ReportTest, MarkdownListsMissingFiles) {
  const std::string path = MakeRun("job", "succeeded", 5);
  ASSERT_TRUE(RemoveRecursively(path + "/steps.csv").ok());
  EXPECT_THAT(ReportMarkdown(CollectReport(path).value()), HasSubstr("What could not be shown"));
  EXPECT_THAT(ReportMarkdown(CollectReport(path).value()), HasSubstr("steps.csv"));
}

TEST_F(ReportTest, TargetOfASingleRunIsWordedInTheSingular) {
  EXPECT_THAT(ReportMarkdown(CollectReport(MakeRun("a", "succeeded", 9)).value()),
              HasSubstr("the highest whole percent that the run reached"));
}

TEST_F(ReportTest, WritesHtmlAndMarkdownIntoRunDirectory) {
  const std::string path = MakeRun("job|x", "succeeded", 5);
  ASSERT_TRUE(WriteReport(CollectReport(path).value(), path).ok());
  EXPECT_TRUE(FileExists(path + "/report.html"));
  EXPECT_THAT(ReadFile(path + "/report.md").value(), HasSubstr("# job\\|x"));
}

TEST(CsvReaderTest, FindsColumnsByName) {
  CsvReader csv("a,b\r\n1,x\r\nbroken\n2,nan\n");
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.Number("a"), 1);
  EXPECT_EQ(csv.Text("b"), "x");
  EXPECT_EQ(csv.Text("c"), "");
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.Number("b"), 0) << "no number";
  EXPECT_FALSE(csv.Next());
  EXPECT_FALSE(CsvReader("").Next());
}

TEST(CsvReaderTest, CellsQuotedByCsvLineAreReadBack) {
  const std::vector<std::string> cells = {"TCP, memory", "say \"no\"", "two\nlines\r\nand more", "", "plain"};
  const std::string text = absl::StrCat("a,b,c,d,e\n", CsvLine(cells), "1,2,3,4,5\n", CsvLine(cells));
  CsvReader csv(text);
  for (const int line : {0, 1, 2}) {
    ASSERT_TRUE(csv.Next()) << line;
    for (const int column : {0, 1, 2, 3, 4}) {
      EXPECT_EQ(csv.Text(std::string(1, static_cast<char>('a' + column))),
                line == 1 ? std::to_string(column + 1) : cells[column]);
    }
  }
  EXPECT_FALSE(csv.Next());
}

TEST(CsvReaderTest, OnlyTheLineWithAnOpenQuoteIsSkipped) {
  CsvReader csv("a,b\n1,\"TCP, mem\n3,4\n");
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.Text("a"), "3");
  EXPECT_FALSE(csv.Next());
}

}  // namespace
}  // namespace tethys
