#include "deploy/hosts/cluster_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ClusterPlanTest : public ::testing::Test {
 protected:
  absl::StatusOr<ClusterPlan> PlanOn(const std::string& host_file, int workers, proto::Job job = {}) {
    job.set_workers(workers);
    job.mutable_strategy()->mutable_mirrored();
    return PlanCluster(directory_.Write("hosts", host_file), job);
  }

  const testing::TempDirectory directory_;
};

TEST_F(ClusterPlanTest, PriceIsSumOverUsedHosts) {
  EXPECT_DOUBLE_EQ(PlanOn("m price=1\na price=0.5\nb price=0.25\n", 1)->PricePerHour(), 1.5);
  EXPECT_EQ(PlanOn("m price=1\na\n", 1)->PricePerHour(), 0) << "a host used has no price";
}

TEST_F(ClusterPlanTest, TableListsEveryHostWithItsProcesses) {
  const std::string table = ClusterTable(PlanOn("m price=1\na slots=2 price=0.5\nb price=1", 2).value());
  EXPECT_THAT(table, HasSubstr("chief\n"));
  EXPECT_THAT(table, HasSubstr("worker 0 1\n"));
  EXPECT_THAT(table, HasSubstr("nothing\n"));
  EXPECT_THAT(table,
              HasSubstr("price per hour of the used hosts together: 1.5\nthe price of m counts although "
                        "it runs only the chief; role=chief,worker in its line "));
  const auto beside = PlanOn("m price=1 role=chief,worker\na price=0.5", 1);
  EXPECT_EQ(beside->PricePerHour(), 1) << "the remedy of this line";
  EXPECT_THAT(ClusterTable(*beside), Not(HasSubstr("counts although")));
}

TEST_F(ClusterPlanTest, HostsThatRunNothingAreCounted) {
  EXPECT_THAT(IdleHostsText(PlanOn("m\na slots=2\nb\nc\n", 2).value()),
              StartsWith("2 of 4 hosts run nothing: "));
  EXPECT_EQ(IdleHostsText(PlanOn("m\na\n", 1).value()), "");
}

TEST_F(ClusterPlanTest, WorkersUseTheirHostsDeviceOrElseTheJobsDevice) {
  const std::string hosts = "m\na slots=2 device=cuda\nb\n";
  EXPECT_EQ(WorkerDevicesText(PlanOn(hosts, 3)->worker_devices), "cuda,cuda,cpu");
  EXPECT_THAT(ClusterTable(PlanOn(hosts, 3).value()), HasSubstr("cuda    worker 0 1\n"));
  EXPECT_TRUE(PlanOn("m\na slots=2\nb\n", 3)->worker_devices.empty());
  EXPECT_THAT(ClusterTable(PlanOn("m\na\nb\n", 2).value()), Not(HasSubstr("device")));
}

TEST_F(ClusterPlanTest, CpuWorkerWithGpuPrecisionIsRefused) {
  proto::Job job;
  job.mutable_device()->set_kind(proto::Device::CUDA);
  job.mutable_device()->set_precision(proto::Device::BF16);
  EXPECT_THAT(
      PlanOn("m role=chief\na\nb device=cpu\n", 2, job).status().message(),
      HasSubstr(
          "/hosts:3: workers on b compute on the CPU (device=cpu), but the job uses device.precision BF16"));
  EXPECT_TRUE(PlanOn("m role=chief device=cpu\na\nb\n", 2, job).ok()) << "no worker is there";
  job.mutable_device()->clear_precision();
  job.mutable_strategy()->mutable_mirrored()->set_gradients(proto::Device::BF16);
  EXPECT_THAT(PlanOn("m role=chief\na\nb device=cpu\n", 2, job).status().message(),
              HasSubstr("/hosts:3: workers on b compute on the CPU (device=cpu), but the job uses "
                        "strategy.mirrored.gradients BF16, which only GPUs support"));
}

TEST(WorkerDevices, ParsedTextMustNameOneDevicePerWorker) {
  EXPECT_THAT(ParseWorkerDevices("cuda,cpu", 2).value(),
              ::testing::ElementsAre(proto::Device::CUDA, proto::Device::CPU));
  EXPECT_TRUE(ParseWorkerDevices("", 2)->empty());
  EXPECT_THAT(ParseWorkerDevices("cuda", 2).status().message(), HasSubstr("1 devices, but the job has 2"));
  EXPECT_THAT(ParseWorkerDevices("cuda,tpu", 2).status().message(), HasSubstr("'tpu' is no device"));
}

TEST_F(ClusterPlanTest, ErrorsNameTheHostFileThatIsAtFault) {
  EXPECT_THAT(PlanOn("m\na\n", 5).status().message(), HasSubstr("/hosts: the job has 5 workers"));
  EXPECT_THAT(PlanOn("m\na x\n", 1).status().message(), HasSubstr("/hosts:2:3: 'x'"));
}

}  // namespace
}  // namespace tethys
