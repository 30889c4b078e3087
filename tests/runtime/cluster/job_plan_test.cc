#include "runtime/cluster/job_plan.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "runtime/cluster/sample_order.h"

namespace tethys {
namespace {

// A plan for 1000 training samples and four workers, each with batches of 8.
proto::JobPlan Plan(const std::string& job) {
  proto::JobPlan plan;
  TETHYS_CHECK(google::protobuf::TextFormat::ParseFromString(job, plan.mutable_job()), job);
  plan.set_train_samples(1000);
  plan.set_batch_per_worker(8);
  plan.set_global_batch(32);
  return plan;
}

constexpr char kAsynchronous[] = "strategy { parameter_server { asynchronous {} } } ";
constexpr char kStale[] = "strategy { parameter_server { stale_synchronous {} } } ";

TEST(TotalSamplesTest, TotalSamplesAreBoundedByEpochsAndMaxSteps) {
  EXPECT_EQ(TotalSamples(Plan("epochs: 2")), 2000);
  EXPECT_EQ(TotalSamples(Plan("epochs: 2 max_steps: 10")), 320);
  EXPECT_EQ(TotalSamples(Plan("epochs: 2 max_steps: 1000")), 2000);
  EXPECT_EQ(TotalSamples(Plan("max_steps: 10")), 320);
  EXPECT_EQ(TotalSamples(Plan("max_steps: 1099511627776")), int64_t{1000} << 35);
}

// An epoch has 31 batches of 32 samples and one batch of 8.
TEST(TotalSamplesTest, TotalSamplesCountTheShortLastBatchOfEachEpoch) {
  EXPECT_EQ(TotalSamples(Plan("max_steps: 32")), 1000);
  EXPECT_EQ(TotalSamples(Plan("max_steps: 65")), 2032);
  EXPECT_EQ(TotalSamples(Plan("drop_remainder: true max_steps: 65")), 2 * 992 + 3 * 32);
  EXPECT_EQ(TotalSamples(Plan(absl::StrCat(kAsynchronous, "max_steps: 125"))), 1000);
  EXPECT_EQ(TotalSamples(Plan("workers: 4 data { sharding: OFF } max_steps: 1099511627776")),
            int64_t{4000} * ((int64_t{1} << 40) / 125) + 32 * ((int64_t{1} << 40) % 125));
}

TEST(TotalSamplesTest, AsynchronousUpdateCountsTheSamplesOfOneWorkersBatch) {
  EXPECT_EQ(TotalSamples(Plan(absl::StrCat(kAsynchronous, "max_steps: 10"))), 80);
  EXPECT_EQ(TotalSamples(Plan(absl::StrCat(kStale, "max_steps: 10"))), 320);
}

TEST(SamplesUsedTest, DroppedSamplesAreNotCountedAsUsed) {
  EXPECT_EQ(SamplesUsed(Plan(""), 3, 64), 3064);
  EXPECT_EQ(SamplesUsed(Plan("drop_remainder: true"), 3, 64), 3 * 31 * 32 + 64);
  EXPECT_EQ(TotalSamples(Plan("drop_remainder: true epochs: 2")), 2 * 31 * 32);
}

// ------------------------------------------------------------------------------------- order of samples

TEST(SampleOrderTest, WithoutShardingEachWorkerHasAllSamplesOnce) {
  const std::string off = "workers: 4 data { sharding: OFF } ";
  EXPECT_EQ(EpochLength(Plan("workers: 4")), 1000);
  EXPECT_EQ(EpochLength(Plan(off)), 4000);
  EXPECT_EQ(SamplesPerEpoch(Plan(off)), 4000);
  EXPECT_EQ(SamplesUsed(Plan(off), 3, 64), 12064);
  EXPECT_EQ(TotalSamples(Plan(off + "epochs: 2")), 8000);
  EXPECT_EQ(SamplesPerEpoch(Plan("drop_remainder: true " + off)), 4000);
  EXPECT_EQ(EpochLength(Plan("strategy { local { virtual_replicas: 3 } } data { sharding: OFF }")), 3000);
}

TEST(SampleOrderTest, AutoShardingIsByFileIfThePlanListsSamplesPerFile) {
  proto::JobPlan plan = Plan("workers: 2 data { sharding: AUTO }");
  EXPECT_EQ(ShardingOf(plan), proto::Data::DATA);
  plan.add_file_samples(400);
  plan.add_file_samples(600);
  EXPECT_EQ(ShardingOf(plan), proto::Data::FILE);
  EXPECT_EQ(OrderRulesOf(plan).sharding, Sharding::kFile);
  EXPECT_EQ(OrderRulesOf(plan).file_samples, (std::vector<int64_t>{400, 600}));
}

TEST(SampleOrderTest, AsynchronousBatchesGoToRanksInTurn) {
  const std::string sharded = "workers: 4 data { sharding: DATA } ";
  EXPECT_EQ(RankSplitOf(Plan(sharded)).PlaceOf(8).rank, 1);
  EXPECT_EQ(RankSplitOf(Plan(sharded)).PlaceOf(999).rank, 3) << "the last step has eight samples";
  EXPECT_EQ(RankSplitOf(Plan(sharded + kAsynchronous)).PlaceOf(999).rank, 0) << "batch 124";
}

TEST(SampleOrderTest, DifferentSampleOrdersHaveDifferentTexts) {
  EXPECT_EQ(OrderText(Plan("workers: 4")), "");
  EXPECT_EQ(OrderText(Plan("workers: 4 data { shuffle { full {} } sharding: GLOBAL }")), "");
  EXPECT_EQ(OrderText(Plan("workers: 4 data { shuffle { blocks { samples: 64 window: 2 } } sharding: OFF }")),
            "OFF over 4 workers in steps of 32; blocks of 64 samples in windows of 2");
  EXPECT_EQ(OrderText(Plan(absl::StrCat("workers: 4 data { sharding: DATA } ", kAsynchronous))),
            "DATA over 4 workers in batches of 8");
  proto::JobPlan plan = Plan("workers: 2 data { sharding: FILE }");
  plan.add_file_samples(400);
  plan.add_file_samples(600);
  const std::string text = OrderText(plan);
  plan.mutable_file_samples()->SwapElements(0, 1);
  EXPECT_NE(OrderText(plan), text) << "files of other lengths";
}

TEST(WorkerLossTest, MirroredWorkersThatAreAllOnGpusFormNewGroupsOnRequest) {
  const std::string job = "workers: 2 strategy { mirrored {} } ";
  for (const std::string wish : {"", "elastic { on_loss: CONTINUE }", "elastic { on_loss: WAIT }"}) {
    SCOPED_TRACE(wish);
    EXPECT_EQ(FormsNewGroups(Plan(job + "device { kind: CUDA } " + wish)), !wish.empty());
    proto::JobPlan plan = Plan(job + wish);
    plan.add_worker_device(proto::Device::CPU);
    plan.add_worker_device(proto::Device::CUDA);
    EXPECT_TRUE(FormsNewGroups(plan) && SurvivesWorkerLoss(plan)) << "worker 0 is on a CPU";
    plan.set_worker_device(0, proto::Device::CUDA);
    EXPECT_EQ(FormsNewGroups(plan), !wish.empty()) << "the host file puts all workers on GPUs";
    EXPECT_EQ(SurvivesWorkerLoss(plan), !wish.empty());
  }
}

TEST(WorkerLossTest, JobsInLockStepFormNewGroupsUnlessTheyEndAtALoss) {
  for (const char* strategy : {"mirrored {}", "parameter_server { servers: 1 }"}) {
    const std::string job = absl::StrCat("workers: 2 strategy { ", strategy, " } ");
    EXPECT_TRUE(FormsNewGroups(Plan(job))) << job;
    EXPECT_TRUE(FormsNewGroups(Plan(job + "elastic { on_loss: WAIT }"))) << job;
    EXPECT_FALSE(FormsNewGroups(Plan(job + "elastic { on_loss: END }"))) << job;
  }
  EXPECT_TRUE(FormsNewGroups(Plan("strategy { parameter_server { servers: 1 } } device { kind: CUDA }")));
  EXPECT_FALSE(FormsNewGroups(Plan("strategy { local {} }")));
  EXPECT_FALSE(FormsNewGroups(Plan(absl::StrCat(kAsynchronous, "workers: 2")))) << "batches are leased";
}

}  // namespace
}  // namespace tethys
