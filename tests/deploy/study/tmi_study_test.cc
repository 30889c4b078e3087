#include "deploy/study/tmi_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

proto::RunSummary Summary(double tmi_avg, double total) {
  proto::RunSummary summary;
  summary.set_strategy("mirrored");
  summary.mutable_timing()->set_tmi_avg_seconds(tmi_avg);
  summary.mutable_timing()->set_beta(0.5);
  summary.mutable_timing()->set_first_iteration_seconds(0.2);
  summary.mutable_timing()->set_total_seconds(total);
  proto::TmiEstimate& estimate = *summary.mutable_timing()->add_tmi_estimate();
  estimate.set_iterations("2-6");
  estimate.set_error(0.1);
  return summary;
}

// A steps.csv in which worker 1 takes twice as long as worker 0, whose iteration i takes i ms.
std::string Steps(int iterations) {
  std::string csv = "rank,epoch,total_ns\n";
  for (int i = 1; i <= iterations; ++i) {
    for (int rank = 0; rank < 2; ++rank)
      absl::StrAppend(&csv, rank, ",1,", int64_t{1000000} * i * (rank + 1), "\n");
  }
  return csv + "0,2,999999999999\n";
}

TEST(MedianOfFirstIterationsTest, MedianIsOfTheSlowestWorkerIfWorkersAreInLockStep) {
  EXPECT_NEAR(*MedianOfFirstIterations(Steps(150), true), 0.103,
              1e-9);  // Iterations 2-101: the median is 51.5 ms, and worker 1 takes twice as long.
  EXPECT_NEAR(*MedianOfFirstIterations(Steps(150), false), 0.071, 0.004);
  EXPECT_FALSE(MedianOfFirstIterations(Steps(10), true).has_value());
  EXPECT_FALSE(MedianOfFirstIterations("", true).has_value());
  EXPECT_FALSE(MedianOfFirstIterations("rank,epoch\n1", true).has_value());
}

TEST(TmiRowsTest, EstimationErrorsHaveMeanAndDeviationOverRuns) {
  std::vector<TmiRun> runs = {*TmiRunOf(3, Summary(0.01, 20), Steps(150)),
                              *TmiRunOf(3, Summary(0.03, 40), "")};
  runs[1].error["2-6"] = 0.3;
  const auto rows = TmiRows(runs);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].cell(), 3);
  EXPECT_NEAR(rows[0].tmi_avg(), 0.02, 1e-12);
  ASSERT_EQ(rows[0].error_size(), 2);
  EXPECT_EQ(rows[0].error(0).iterations(), "2-6");
  EXPECT_NEAR(rows[0].error(0).mean(), 0.2, 1e-12);
  EXPECT_NEAR(rows[0].error(0).deviation(), 0.1414, 1e-3);
  EXPECT_EQ(rows[0].error(1).runs(), 1);  // The estimate by the median, which needs steps.csv.
  EXPECT_NEAR(rows[0].error(1).mean(), 9.3, 1e-6);
}

TEST(TmiRunTest, ShortRunHasNoEstimate) { EXPECT_FALSE(TmiRunOf(0, proto::RunSummary(), "").has_value()); }

TEST(OrderOfTest, TimesAreRelativeToTheSmallestTimeOfTheGroup) {
  const auto rows = TmiRows({*TmiRunOf(0, Summary(0.02, 30), ""), *TmiRunOf(1, Summary(0.01, 20), ""),
                             *TmiRunOf(2, Summary(0.03, 10), "")});
  const proto::TmiOrder order = OrderOf("batch 256", rows);
  EXPECT_THAT(order.tmi_share(), ElementsAre(DoubleNear(2, 1e-9), DoubleNear(1, 1e-9), DoubleNear(3, 1e-9)));
  EXPECT_THAT(order.total_share(),
              ElementsAre(DoubleNear(3, 1e-9), DoubleNear(2, 1e-9), DoubleNear(1, 1e-9)));
  EXPECT_NEAR(order.tau(), -1.0 / 3, 1e-9);
  EXPECT_FALSE(order.same_best());
}

TEST(KendallTauTest, CountsPairsInOrderAndTies) {
  EXPECT_DOUBLE_EQ(KendallTau({1, 2, 3}, {10, 20, 30}), 1);
  EXPECT_DOUBLE_EQ(KendallTau({1, 2, 3}, {3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(KendallTau({1, 1}, {1, 2}), 0);
  EXPECT_NEAR(KendallTau({1, 2, 2}, {1, 2, 3}), 0.8165, 1e-4);
  EXPECT_DOUBLE_EQ(KendallTau({}, {}), 0);
}

}  // namespace
}  // namespace tethys
