#include "deploy/experiment/strategy_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/report/others_cpu.h"

namespace tethys {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const StrategyShapes& shapes) {
  std::vector<std::string> names;
  for (const StrategyShape& shape : shapes.shapes) names.push_back(shape.name);
  return names;
}

TEST(ShapesOfTest, StrategyAllLeavesOutInvalidAndRedundantCombinations) {
  const auto shapes = ShapesOf("all", "1-2", "1,2");
  ASSERT_TRUE(shapes.ok());
  EXPECT_THAT(Names(*shapes),
              ElementsAre("local", "mirrored-2", "ps_sync-1x1", "ps_sync-1x2", "ps_sync-2x1", "ps_sync-2x2",
                          "ps_stale-2x1", "ps_stale-2x2", "ps_async-2x1", "ps_async-2x2"));
  EXPECT_THAT(shapes->left_out, ElementsAre("local with several workers: local training has one worker",
                                            "mirrored with 1 worker: that is local training",
                                            "ps_stale with 1 worker: that is ps_sync",
                                            "ps_async with 1 worker: that is ps_sync"));
}

TEST(ShapesOfTest, OverridesSetStrategyConsistencyAndProcessCounts) {
  const auto shapes = ShapesOf("mirrored,ps_stale_2", "4", "2");
  ASSERT_TRUE(shapes.ok());
  ASSERT_EQ(shapes->shapes.size(), 2u);
  EXPECT_THAT(shapes->shapes[0].overrides, ElementsAre("strategy=mirrored", "workers=4"));
  EXPECT_THAT(shapes->shapes[1].overrides,
              ElementsAre("strategy=parameter_server", "workers=4", "strategy.parameter_server.servers=2",
                          "strategy.parameter_server.consistency=stale_synchronous",
                          "strategy.parameter_server.stale_synchronous.bound=2"));
}

TEST(ShapesOfTest, WithoutFlagsTheJobsProcessCountsAreKept) {
  const auto shapes = ShapesOf("ps_async", "", "");
  ASSERT_TRUE(shapes.ok());
  EXPECT_THAT(Names(*shapes), ElementsAre("ps_async"));
  EXPECT_THAT(shapes->shapes[0].overrides,
              ElementsAre("strategy=parameter_server", "strategy.parameter_server.consistency=asynchronous"));
}

TEST(ShapesOfTest, UnknownWordsAreQuotedInTheError) {
  const auto refusal = [](const std::string& strategies, const std::string& workers) {
    return std::string(ShapesOf(strategies, workers, "").status().message());
  };
  EXPECT_THAT(refusal("mirored", ""), HasSubstr("there is no strategy 'mirored' (did you mean mirrored?)"));
  EXPECT_THAT(refusal("local,local", ""), HasSubstr("local is given twice"));
  EXPECT_THAT(refusal("all", "8-1"), HasSubstr("the range 8-1 is reversed: write 1-8"));
  EXPECT_THAT(refusal("all", "0"), HasSubstr("--workers=0: '0' is not a number"));
  EXPECT_THAT(refusal("all", ""), "");
  EXPECT_THAT(refusal("all", "1-1000000000"), HasSubstr("is not a number from 1 to 4096"));
  EXPECT_THAT(refusal("all", "2,1-3"), HasSubstr("2 is given twice"));
  EXPECT_THAT(refusal("all", "2,"), HasSubstr("'' is not a number"));
}

TEST(ScalingOfTest, BaselineIsLocalVariantWithFewestWorkers) {
  int baseline = -1;
  const auto scaling = ScalingOf({{StrategyFamily::kBulkSynchronous, 1, 800},
                                  {StrategyFamily::kLocal, 1, 1000},
                                  {StrategyFamily::kMirrored, 4, 3000},
                                  {StrategyFamily::kMirrored, 8, 0}},
                                 baseline);
  EXPECT_EQ(baseline, 1);
  EXPECT_DOUBLE_EQ(scaling[2].speed_up, 3);
  EXPECT_DOUBLE_EQ(scaling[2].efficiency, 0.75);
  EXPECT_DOUBLE_EQ(scaling[0].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(scaling[3].speed_up, 0);
}

TEST(ScalingOfTest, VariantsWithEqualWorkerCountsHaveNoScalingBaseline) {
  int baseline = 0;
  EXPECT_DOUBLE_EQ(
      ScalingOf({{StrategyFamily::kMirrored, 4, 100}, {StrategyFamily::kBulkSynchronous, 4, 80}}, baseline)[1]
          .speed_up,
      0);
  EXPECT_EQ(baseline, -1);
}

proto::ResourceSummary Use(const std::string& host, const std::string& process, double percent) {
  proto::ResourceSummary use;
  use.set_host(host);
  use.set_process(process);
  use.set_cores(2);
  use.set_boot_id("kernel");
  use.mutable_cpu_percent()->set_mean(percent);
  return use;
}

TEST(OthersCpuTest, CpuUseOfOtherProgramsCountsAComputerOnceEvenWithSeveralMachines) {
  proto::RunSummary summary;
  *summary.add_resources() = Use("", "", 400);  // The cluster's sum counts the machines' only computer twice.
  *summary.add_resources() = Use("a", "", 190);
  *summary.add_resources() = Use("a", "worker 0", 60);
  *summary.add_resources() = Use("b", "", 186);
  *summary.add_resources() = Use("b", "worker 1", 70);
  ASSERT_TRUE(OthersCpuOf(summary).has_value());
  EXPECT_THAT(*OthersCpuOf(summary), DoubleNear(0.3, 1e-9));
  summary.set_others_cpu(0.1);
  EXPECT_THAT(*OthersCpuOf(summary), DoubleNear(0.1, 1e-9));
  EXPECT_FALSE(OthersCpuOf(proto::RunSummary()).has_value());
}

}  // namespace
}  // namespace tethys
