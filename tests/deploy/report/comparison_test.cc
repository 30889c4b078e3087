#include "deploy/report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "deploy/report/medium.h"
#include "deploy/text.h"
#include "tests/deploy/report/run_records.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using testing::FailedRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OneRun;
using testing::WithCourse;

std::vector<VariantLabel> Labels() {
  return {{"fashion_mnist_local", "local", 1, 0, 128, "global", {}},
          {"fashion_mnist_ps_async", "ps_async", 6, 2, 768, "push", {}}};
}

TEST(VariationTest, VariationIsParsedIntoFieldAndValues) {
  const Variation variation = *ParseVariation("batch_size_per_worker=64,128");
  EXPECT_EQ(variation.field, "batch_size_per_worker");
  EXPECT_THAT(variation.values, ElementsAre("64", "128"));
}

TEST(VariationTest, RefusesMalformedVariations) {
  for (const char* text : {"", "workers", "=1", "workers=", "workers=1,,2", "workers=1,2,1"}) {
    EXPECT_EQ(ParseVariation(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(VariantTest, AllCombinationsOfJobsAndValuesAreMade) {
  const std::vector<Variation> variations = {{"workers", {"1", "2"}}, {"seed", {"7", "8"}}};
  const std::vector<Variant> variants = AllVariants(2, variations);
  ASSERT_EQ(variants.size(), 8);
  EXPECT_EQ(variants[6].job, 1);
  EXPECT_THAT(VariantOverrides(variants[6], variations), ElementsAre("workers=2", "seed=7"));
  EXPECT_EQ(AllVariants(3, {}).size(), 3);
}

TEST(ComparisonTableTest, ShowsMeanAndIntervalPerVariant) {
  const std::vector<RunRecord> runs = {OneRun(0, 0, 0.86, 10), OneRun(1, 0, 0.85, 20), OneRun(0, 1, 0.88, 12),
                                       OneRun(1, 1, 0.86, 22), OneRun(0, 2, 0.87, 11)};
  EXPECT_EQ(
      ComparisonTable(Labels(), {}, runs),
      "Jobs fashion_mnist_*\n"
      "\n"
      "                                                                                           waiting\n"
      "                                                       test                                for the  "
      "KiB per    mean\n"
      "                                         global    accuracy            training  samples  exchange    "
      " step  stale-  gradient\n"
      "   job       strategy  workers  servers   batch           %                   s       /s         %  "
      "through    ness  scale\n"
      "A  local     local           1        0     128  87.0 ± 2.5  11.0 (8.8 to 13.8)    4,936      25.0  "
      "795 TCP    0.00  global\n"
      "B  ps_async  ps_async        6        2     768       85.50                21.0    2,577      25.0  "
      "795 TCP    1.00  push\n"
      "Means over runs. x ± y, or x (low to high): with 95 % confidence the mean lies between x - y and x +\n"
      "y, or between low and high. Means over two runs have no interval.\n");
}

TEST(ComparisonTableTest, BytesThroughMemory_AreMarkedAndTcpBytesAreNot) {
  std::vector<RunRecord> runs = {OneRun(0, 0, 0.86, 10), OneRun(1, 0, 0.85, 20)};
  EXPECT_THAT(ComparisonTable(Labels(), {}, runs), Not(HasSubstr("memory")));
  runs[0].summary.set_exchange("shared memory among 3 workers");
  const std::string table = ComparisonTable(Labels(), {}, runs);
  EXPECT_THAT(table, ContainsRegex("local .* 795 memory .*\nB  ps_async .* 795 TCP "));
  EXPECT_THAT(
      table,
      HasSubstr(
          "Through memory: the bytes are in memory that the processes of one host share, and cross no"));
  EXPECT_THAT(ComparisonCsv(Labels(), {}, runs, absl::nullopt),
              HasSubstr(",memory,shared memory among 3 workers,runs/r,"));
  runs.push_back(OneRun(0, 1, 0.86, 10));
  runs[2].summary.set_exchange("TCP among 3 workers: worker 1 on h cannot share memory");
  EXPECT_THAT(ComparisonTable(Labels(), {}, runs), HasSubstr("795 TCP or memory"));
}

TEST(MediumTest, MediumFollowsFromTheExchangeDescription) {
  proto::RunSummary summary = OneRun(0, 0, 0.86, 10).summary;
  for (const auto& [exchange, medium] :
       {std::pair{"", "TCP"}, std::pair{"shared memory among 3 workers", "memory"},
        std::pair{"TCP among 3 workers: no two workers share a host", "TCP"},
        std::pair{"TCP among 3 workers: worker 1 has no shared memory", "TCP"},
        std::pair{"shared memory inside 2 hosts and TCP between them, 3 workers", "TCP, memory"},
        std::pair{"NCCL among 2 GPUs", "NCCL"}}) {
    summary.set_exchange(exchange);
    EXPECT_EQ(MediumOf(summary), medium) << exchange;
  }
  summary.clear_communication();
  EXPECT_EQ(MediumOf(summary), "");
}

TEST(ComparisonTableTest, FitsTerminalOf120Columns) {
  const std::vector<RunRecord> runs = {OneRun(0, 0, 0.86, 100), OneRun(1, 0, 0.85, 120),
                                       OneRun(0, 1, 0.88, 112), OneRun(1, 1, 0.86, 122)};
  for (absl::string_view line : absl::StrSplit(ComparisonTable(Labels(), {}, runs), '\n')) {
    EXPECT_LE(DisplayWidth(line), 120) << line;
  }
}

TEST(ComparisonTableTest, MeanIouHasAColumnIfAnyRunReportsIt) {
  RunRecord run = OneRun(0, 0, 0.86, 100);
  EXPECT_THAT(ComparisonTable(Labels(), {}, {run}), Not(HasSubstr("IoU")));
  run.summary.mutable_test()->set_mean_iou(0.4321);
  const std::string table = ComparisonTable(Labels(), {}, {run, OneRun(1, 0, 0.85, 120)});
  EXPECT_THAT(table, AllOf(HasSubstr("IoU, %"), HasSubstr("43.21")));
  EXPECT_THAT(ComparisonCsv(Labels(), {}, {run}, absl::nullopt), HasSubstr(",0.4321,"));
}

TEST(ComparisonTableTest, FitsNarrowTerminals) {
  RunRecord run = OneRun(0, 0, 0.86, 100);
  run.summary.set_others_cpu(0.59);
  for (const int width : {60, 80, 120}) {
    const std::string table = ComparisonTable(Labels(), {}, {run, OneRun(1, 0, 0.85, 120)}, width);
    EXPECT_THAT(table, HasSubstr("gradient"));
    EXPECT_THAT(table, HasSubstr("others'"));
    for (absl::string_view line : absl::StrSplit(table, '\n')) EXPECT_LE(DisplayWidth(line), width) << line;
  }
}

TEST(ComparisonTableTest, VariedFieldHasItsOwnColumn) {
  std::vector<VariantLabel> labels = {{"mnist", "local", 1, 0, 64, "global", {"64"}},
                                      {"mnist", "local", 1, 0, 128, "global", {"128"}}};
  const std::vector<Variation> variations = {{"batch_size_per_worker", {"64", "128"}}};
  const std::string table =
      ComparisonTable(labels, variations, {OneRun(0, 0, 0.86, 10), OneRun(1, 0, 0.85, 20)});
  EXPECT_THAT(table, HasSubstr("\n          batch_size   "));
  EXPECT_THAT(table, HasSubstr("\n   job    per_worker  strategy"));
  EXPECT_THAT(table, HasSubstr("\nB  mnist         128  local"));
}

TEST(ComparisonTableTest, FailedRunIsNamedAndLeftOutOfMeans) {
  const std::string table =
      ComparisonTable(Labels(), {}, {OneRun(0, 0, 0.86, 10), FailedRun(1, 0), OneRun(1, 1, 0.85, 20)});
  EXPECT_THAT(table, HasSubstr("85.00 "));
  EXPECT_THAT(table, HasSubstr("failed: runs/ps-r0: worker 1 on host, killed\n"));
}

TEST(ComparisonTableTest, VariantWhoseRunsUsedDifferentExchangeMethods_IsListedInTheTable) {
  std::vector<RunRecord> runs = {OneRun(0, 0, 0.86, 10), OneRun(0, 1, 0.86, 20), OneRun(0, 2, 0.86, 20),
                                 OneRun(1, 0, 0.85, 20), FailedRun(1, 1)};
  for (RunRecord& run : runs) run.summary.set_exchange("shared memory among 3 workers");
  runs[4].summary.clear_exchange();
  EXPECT_THAT(ComparisonTable(Labels(), {}, runs), Not(HasSubstr("alike")));
  runs[1].summary.set_exchange("TCP among 3 workers: worker 1 on h cannot share memory");
  EXPECT_THAT(ComparisonTable(Labels(), {}, runs),
              HasSubstr("runs of A did not exchange gradients in the same way: 1 by TCP among 3 "
                        "workers, 2 by shared memory among 3 workers\n"));
  EXPECT_THAT(ComparisonCsv(Labels(), {}, runs, absl::nullopt), HasSubstr(",TCP among 3 workers,runs/r,"));
}

TEST(ComparisonTableTest, ShowsCostsOnlyIfPriceIsKnown) {
  RunRecord run = OneRun(0, 0, 0.85, 10);
  EXPECT_THAT(ComparisonTable(Labels(), {}, {&run, 1}), Not(HasSubstr("cost of")));
  run.summary.mutable_cost()->set_run(0.0125);
  run.summary.mutable_cost()->set_epoch(0.0005);
  const std::string table = ComparisonTable(Labels(), {}, {&run, 1});
  EXPECT_THAT(table, HasSubstr("cost of"));
  EXPECT_THAT(table, HasSubstr("0.0125    0.0005"));
  EXPECT_THAT(table, HasSubstr("\nCosts are in the currency of the prices per hour.\n"));
}

TEST(ComparisonCsvTest, HasALinePerRunAndOnePerVariant) {
  const std::vector<std::string> lines = absl::StrSplit(
      ComparisonCsv(Labels(), {}, {OneRun(0, 0, 0.75, 8), FailedRun(1, 0)}, absl::nullopt), '\n');
  EXPECT_EQ(
      lines[0],
      "kind,variant,job,strategy,workers,servers,global_batch,gradient_scale,repeat,seed,runs,failed,test_"
      "accuracy,"
      "test_accuracy_sd,training_seconds,training_seconds_sd,samples_per_second,samples_per_second_sd,"
      "exposed_share,exposed_share_sd,bytes_per_step,bytes_per_step_sd,mean_staleness,mean_staleness_sd,"
      "others_cpu,others_"
      "cpu_sd,run_cost,run_cost_sd,epoch_cost,epoch_cost_sd,best_validation_accuracy,best_validation_"
      "accuracy_sd,"
      "seconds_to_target,seconds_to_target_sd,epochs_to_target,epochs_to_target_sd,cost_to_target,"
      "cost_to_target_sd,test_mean_iou,test_mean_iou_sd,target_accuracy,reached_target,through,exchange,run_"
      "dir,error");
  EXPECT_EQ(
      lines[1],
      "run,A,fashion_mnist_local,local,1,0,128,global,0,0,1,0,0.75,,8,,6750,,0.25,,814160,,0,,,,,,,,,,,,,"
      ",,,,,,,TCP,,runs/r,");
  EXPECT_EQ(
      lines[2],
      "run,B,fashion_mnist_ps_async,ps_async,6,2,768,push,0,0,1,1,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,runs/ps-r0,"
      "\"worker 1 on host, killed");
  EXPECT_EQ(
      lines[4],
      "mean,A,fashion_mnist_local,local,1,0,128,global,,,1,0,0.75,,8,,6750,,0.25,,814160,,0,,,,,,,,,,,,,,"
      ",,,,,,,,,");
  EXPECT_EQ(lines[5],
            "mean,B,fashion_mnist_ps_async,ps_async,6,2,768,push,,,1,1,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,");
}

TEST(SecondsLeftTest, TimeLeftUsesTheMeanOfEachVariantOrElseOfAllRuns) {
  EXPECT_FALSE(SecondsLeft({}, {{0, 1}}).has_value());
  const std::vector<RunTime> made = {{0, 10}, {0, 12}, {1, 20}};
  EXPECT_DOUBLE_EQ(*SecondsLeft(made, std::vector<int>{0, 1}), 31);
  EXPECT_DOUBLE_EQ(*SecondsLeft(made, std::vector<int>{2}), 14) << "no run of variant 2 has finished";
}

TEST(TimeToTargetTest, WithoutTargetThereIsNoTable) {
  const RunRecord run = OneRun(0, 0, 0.9, 3);
  EXPECT_EQ(TargetTable(Labels(), {}, {&run, 1}, absl::nullopt), "");
}

TEST(TimeToTargetTest, TableHasCaptionAndCountsRunsThatReachedTarget) {
  const std::vector<RunRecord> runs = {
      WithCourse(OneRun(0, 0, 0.9, 3), {0.7, 0.9}), WithCourse(OneRun(0, 1, 0.9, 3), {0.9, 0.9}),
      WithCourse(OneRun(1, 0, 0.9, 3), {0.7, 0.8}), WithCourse(OneRun(1, 1, 0.9, 3), {0.7, 0.8})};
  EXPECT_EQ(
      TargetTable(Labels(), {}, runs, TargetOf(runs, 0.85)),
      "Time to 85 % validation accuracy\n"
      "Training until the end of the first epoch that reached the target; mean over the runs that did so.\n"
      "\n"
      "                       training          best validation\n"
      "   job       strategy         s  epochs      accuracy, %  reached by\n"
      "A  local     local         1.50     1.5            90.00  2 of 2\n"
      "B  ps_async  ps_async         -       -            80.00  0 of 2\n");
}

TEST(TimeToTargetTest, TableSaysWhereItsIntervalsAreCut) {
  const std::vector<RunRecord> runs = {WithCourse(OneRun(0, 0, 0.9, 3), {0.7, 0.9, 0.9}),
                                       WithCourse(OneRun(0, 1, 0.9, 3), {0.9, 0.9, 0.9}),
                                       WithCourse(OneRun(0, 2, 0.9, 3), {0.7, 0.7, 0.9})};
  EXPECT_THAT(TargetTable(Labels(), {}, runs, TargetOf(runs, 0.85)),
              AllOf(HasSubstr(" 2.0 ± 1.0 "), HasSubstr("are cut at the end of the first epoch")));
}

TEST(TimeToTargetTest, TableFitsTerminalOf120Columns) {
  std::vector<RunRecord> runs = {WithCourse(OneRun(0, 0, 0.9, 3), std::vector<double>(200, 0.5)),
                                 WithCourse(OneRun(0, 1, 0.9, 3), {0.5, 0.85})};
  for (RunRecord& run : runs) run.summary.mutable_cost()->set_price_per_hour(1);
  const std::string table = TargetTable(Labels(), {}, runs, TargetOf(runs, absl::nullopt));
  for (absl::string_view line : absl::StrSplit(table, '\n')) EXPECT_LE(DisplayWidth(line), 120) << line;
  EXPECT_THAT(table, HasSubstr("(the highest whole percent that every run reached)\n"));
}

TEST(TimeToTargetTest, CsvHasTargetOfEveryRun) {
  const RunRecord run = WithCourse(OneRun(0, 0, 0.75, 8), {0.5, 0.75});
  const std::vector<std::string> lines =
      absl::StrSplit(ComparisonCsv({Labels().data(), 1}, {}, {&run, 1}, TargetOf({&run, 1}, 0.75)), '\n');
  EXPECT_THAT(lines[1], HasSubstr(",0.75,,2,,2,,,,,,0.75,1,TCP,,runs/r,"));
  EXPECT_THAT(lines[2], HasSubstr(",0.75,,2,,2,,,,,,0.75,1,,"));
}

}  // namespace
}  // namespace tethys
