#include "deploy/cluster_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

class ClusterPlanTest : public ::testing::Test {
 protected:
  absl::StatusOr<ClusterPlan> PlanOn(const std::string& host_file, int workers) {
    proto::Job job;
    job.set_workers(workers);
    job.mutable_strategy()->mutable_mirrored();
    return PlanCluster(directory_.Write("hosts", host_file), job);
  }

  const testing::TempDirectory directory_;
};

TEST_F(ClusterPlanTest, CostsWhatTheHostsItUsesCost) {
  EXPECT_DOUBLE_EQ(PlanOn("m price=1\na price=0.5\nb price=0.25\n", 1)->PricePerHour(), 1.5);
  EXPECT_EQ(PlanOn("m price=1\na\n", 1)->PricePerHour(), 0) << "a host used has no price";
}

TEST_F(ClusterPlanTest, ListsEveryHostWithWhatItRuns) {
  const std::string table = ClusterTable(PlanOn("m price=1\na slots=2 price=0.5\nb price=1", 2).value());
  EXPECT_THAT(table, HasSubstr("chief\n"));
  EXPECT_THAT(table, HasSubstr("worker 0 1\n"));
  EXPECT_THAT(table, HasSubstr("nothing\n"));
  EXPECT_THAT(table, HasSubstr("price of an hour: 1.5\n"));
}

TEST_F(ClusterPlanTest, ErrorsNameTheFile) {
  EXPECT_THAT(PlanOn("m\na\n", 5).status().message(), HasSubstr("/hosts: the job has 5 workers"));
  EXPECT_THAT(PlanOn("m\na x\n", 1).status().message(), HasSubstr("/hosts:2:3: 'x'"));
}

}  // namespace
}  // namespace tethys
