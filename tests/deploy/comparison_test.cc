#include "deploy/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunRecord OneRun(int variant, int repeat, double accuracy, double seconds) {
  RunRecord run{
      .variant = variant, .repeat = repeat, .seed = static_cast<uint64_t>(repeat), .run_dir = "runs/r"};
  run.summary.mutable_test()->set_accuracy(accuracy);
  run.summary.mutable_timing()->set_training_seconds(seconds);
  run.summary.mutable_timing()->set_samples_per_second(54000 / seconds);
  run.summary.mutable_communication()->set_exposed_share(0.25);
  run.summary.mutable_communication()->set_bytes_out_per_step(407080);
  run.summary.mutable_communication()->set_bytes_in_per_step(407080);
  run.summary.mutable_communication()->set_mean_staleness(variant);
  return run;
}

RunRecord FailedRun(int variant, int repeat) {
  RunRecord run{.variant = variant, .repeat = repeat, .run_dir = "runs/ps-r0"};
  run.status = absl::AbortedError("worker 1 on host, killed\n  more");
  return run;
}

std::vector<VariantLabel> Labels() {
  return {{"fashion_mnist_local", "local", 1, 0, 128, "global", {}},
          {"fashion_mnist_ps_async", "ps_async", 6, 2, 768, "push", {}}};
}

TEST(VariationTest, ReadsFieldAndValues) {
  const Variation variation = *ParseVariation("batch_size_per_worker=64,128");
  EXPECT_EQ(variation.field, "batch_size_per_worker");
  EXPECT_THAT(variation.values, ElementsAre("64", "128"));
}

TEST(VariationTest, RefusesWhatIsNoVariation) {
  for (const char* text : {"", "workers", "=1", "workers=", "workers=1,,2", "workers=1,2,1"}) {
    EXPECT_EQ(ParseVariation(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(VariantTest, AreAllCombinationsOfJobsAndValues) {
  const std::vector<Variation> variations = {{"workers", {"1", "2"}}, {"seed", {"7", "8"}}};
  const std::vector<Variant> variants = AllVariants(2, variations);
  ASSERT_EQ(variants.size(), 8);
  EXPECT_EQ(variants[6].job, 1);
  EXPECT_THAT(VariantOverrides(variants[6], variations), ElementsAre("workers=2", "seed=7"));
  EXPECT_EQ(AllVariants(3, {}).size(), 3);
}

TEST(SpreadTest, IsMeanAndSampleDeviation) {
  const Spread spread = SpreadOf({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(spread.mean, 2.5);
  EXPECT_DOUBLE_EQ(spread.deviation, std::sqrt(5.0 / 3));
  EXPECT_EQ(SpreadOf({7.0}).deviation, 0);
  EXPECT_EQ(SpreadOf({}).count, 0);
}

TEST(ComparisonTableTest, ShowsMeanAndDeviationPerVariant) {
  const std::vector<RunRecord> runs = {OneRun(0, 0, 0.86, 10), OneRun(1, 0, 0.85, 20), OneRun(0, 1, 0.88, 12),
                                       OneRun(1, 1, 0.86, 22)};
  EXPECT_EQ(
      ComparisonTable(Labels(), {}, runs),
      "Jobs fashion_mnist_*\n"
      "\n"
      "                                                      test                       exposed             "
      "mean\n"
      "                                      global      accuracy    training  samples    share  KiB per  "
      "stale-  gradient\n"
      "job       strategy  workers  servers   batch             %           s       /s        %     step    "
      "ness  scale\n"
      "local     local           1        0     128  87.00 ± 1.41  11.0 ± 1.4    4,950     25.0      795    "
      "0.00  global\n"
      "ps_async  ps_async        6        2     768  85.50 ± 0.71  21.0 ± 1.4    2,577     25.0      795    "
      "1.00  push\n");
}

TEST(ComparisonTableTest, FitsATerminal) {
  const std::vector<RunRecord> runs = {OneRun(0, 0, 0.86, 100), OneRun(1, 0, 0.85, 120),
                                       OneRun(0, 1, 0.88, 112), OneRun(1, 1, 0.86, 122)};
  for (absl::string_view line : absl::StrSplit(ComparisonTable(Labels(), {}, runs), '\n')) {
    EXPECT_LE(DisplayWidth(line), 120) << line;
  }
}

TEST(ComparisonTableTest, ShowsWhatVariesInColumnsOfItsOwn) {
  std::vector<VariantLabel> labels = {{"mnist", "local", 1, 0, 64, "global", {"64"}},
                                      {"mnist", "local", 1, 0, 128, "global", {"128"}}};
  const std::vector<Variation> variations = {{"batch_size_per_worker", {"64", "128"}}};
  const std::string table =
      ComparisonTable(labels, variations, {OneRun(0, 0, 0.86, 10), OneRun(1, 0, 0.85, 20)});
  EXPECT_THAT(table, HasSubstr("\n       batch_size   "));
  EXPECT_THAT(table, HasSubstr("\njob    per_worker  strategy"));
  EXPECT_THAT(table, HasSubstr("\nmnist         128  local"));
}

TEST(ComparisonTableTest, AFailedRunIsNamedWithItsReasonAndLeftOutOfTheMeans) {
  const std::string table =
      ComparisonTable(Labels(), {}, {OneRun(0, 0, 0.86, 10), FailedRun(1, 0), OneRun(1, 1, 0.85, 20)});
  EXPECT_THAT(table, HasSubstr("85.00 "));
  EXPECT_THAT(table, HasSubstr("failed: runs/ps-r0: worker 1 on host, killed\n"));
}

TEST(ComparisonTableTest, AVariantWithoutAnySuccessHasNoNumbers) {
  const Aggregate aggregate = AggregateRuns({{FailedRun(1, 0)}}, 1);
  EXPECT_EQ(aggregate.failed, 1);
  EXPECT_EQ(aggregate.accuracy.count, 0);
}

TEST(ComparisonTableTest, ShowsCostsOnlyWhereAPriceIsKnown) {
  RunRecord run = OneRun(0, 0, 0.85, 10);
  EXPECT_THAT(ComparisonTable(Labels(), {}, {&run, 1}), Not(HasSubstr("cost of")));
  run.summary.mutable_cost()->set_run(0.0125);
  run.summary.mutable_cost()->set_epoch(0.0005);
  const std::string table = ComparisonTable(Labels(), {}, {&run, 1});
  EXPECT_THAT(table, HasSubstr("cost of"));
  EXPECT_THAT(table, HasSubstr("0.0125    0.0005"));
}

TEST(ComparisonCsvTest, HasALinePerRunAndOnePerVariant) {
  const std::vector<std::string> lines =
      absl::StrSplit(ComparisonCsv(Labels(), {}, {OneRun(0, 0, 0.75, 8), FailedRun(1, 0)}), '\n');
  EXPECT_EQ(
      lines[0],
      "kind,job,strategy,workers,servers,global_batch,gradient_scale,repeat,seed,runs,failed,test_accuracy,"
      "test_accuracy_sd,training_seconds,training_seconds_sd,samples_per_second,samples_per_second_sd,"
      "exposed_share,exposed_share_sd,bytes_per_step,bytes_per_step_sd,mean_staleness,mean_staleness_sd,run_"
      "cost,run_cost_sd,epoch_cost,epoch_cost_sd,"
      "run_dir,error");
  EXPECT_EQ(
      lines[1],
      "run,fashion_mnist_local,local,1,0,128,global,0,0,1,0,0.75,,8,,6750,,0.25,,814160,,0,,,,,,runs/r,");
  EXPECT_EQ(lines[2],
            "run,fashion_mnist_ps_async,ps_async,6,2,768,push,0,0,1,1,,,,,,,,,,,,,,,,,runs/ps-r0,"
            "\"worker 1 on host, killed");
  EXPECT_EQ(lines[4],
            "mean,fashion_mnist_local,local,1,0,128,global,,,1,0,0.75,,8,,6750,,0.25,,814160,,0,,,,,,,");
  EXPECT_EQ(lines[5], "mean,fashion_mnist_ps_async,ps_async,6,2,768,push,,,1,1,,,,,,,,,,,,,,,,,,");
}

}  // namespace
}  // namespace tethys
