#include "deploy/describe/job_remarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A plan with 54,000 samples, three workers with batches of 128, and servers[i] parameters on server i.
proto::JobPlan Plan(const std::vector<int64_t>& servers) {
  proto::JobPlan plan;
  plan.mutable_job()->set_workers(3);
  plan.set_batch_per_worker(128);
  plan.set_global_batch(384);
  plan.set_train_samples(54000);
  plan.mutable_placement()->set_servers(static_cast<int32_t>(servers.size()));
  for (size_t server = 0; server < servers.size(); ++server) {
    if (servers[server] == 0) continue;
    proto::Shard& shard = *plan.mutable_placement()->add_shard();
    shard.set_server(static_cast<int32_t>(server));
    shard.set_count(servers[server]);
  }
  return plan;
}

proto::JobPlan Workers(int workers, int64_t global_batch) {
  proto::JobPlan plan = Plan({});
  plan.mutable_job()->set_workers(workers);
  plan.set_global_batch(global_batch);
  return plan;
}

TEST(JobRemarks, JobWithoutIdleProcessesGetsNoRemark) {
  EXPECT_THAT(JobRemarks(Plan({})), IsEmpty());
  EXPECT_THAT(JobRemarks(Plan({500, 500, 51})), IsEmpty());
}

TEST(JobRemarks, RemarksAboutTheDataAreListedLast) {
  proto::JobPlan plan = Plan({500, 500, 0, 0, 0});
  plan.add_data_note("no training sample has class 1");
  EXPECT_THAT(JobRemarks(plan), ElementsAre(HasSubstr("servers"), "no training sample has class 1"));
}

TEST(JobRemarks, ServersWithoutParametersAreCounted) {
  EXPECT_THAT(JobRemarks(Plan({500, 500, 0, 0, 0})),
              ElementsAre(HasSubstr("of 5 servers 3 hold no parameters: `servers: 2` does the same")));
}

TEST(JobRemarks, ServersWithTinyShareAreCountedWithTheirShare) {
  EXPECT_THAT(
      JobRemarks(Plan({493, 493, 14})),
      ElementsAre(HasSubstr("of 3 servers 1 holds 1.4 % of the parameters: `servers: 2` does nearly")));
  EXPECT_THAT(JobRemarks(Plan({493, 493, 7, 7, 0})),
              ElementsAre(HasSubstr("of 5 servers 1 holds no parameters and 2 hold 1.4 % of the parameters "
                                    "together: `servers: 2`")));
}

TEST(JobRemarks, RemarkCountsSamplesNormalisedTogetherIfFewerThanTheBatch) {
  proto::JobPlan plan = Workers(8, 16);
  proto::Job& job = *plan.mutable_job();
  job.set_global_batch_size(16);
  job.mutable_strategy()->mutable_mirrored();
  EXPECT_THAT(JobRemarks(plan), IsEmpty());
  job.mutable_model()->add_layer()->mutable_batch_normalisation();
  EXPECT_THAT(JobRemarks(plan),
              ElementsAre(HasSubstr("batch normalisation: 2 samples are normalised together, not the global "
                                    "batch of 16, because each of 8 workers normalises its own")));
  job.mutable_strategy()->mutable_mirrored()->set_synchronised_batch_normalisation(true);
  EXPECT_THAT(JobRemarks(plan), IsEmpty());
  job.mutable_model()->mutable_layer(0)->set_trainable(false);
  job.mutable_strategy()->mutable_mirrored()->clear_synchronised_batch_normalisation();
  EXPECT_THAT(JobRemarks(plan), IsEmpty()) << "a frozen layer takes its moving statistics";
  job.mutable_model()->mutable_layer(0)->clear_trainable();
  job.mutable_strategy()->mutable_local()->set_virtual_replicas(4);
  job.set_workers(1);
  EXPECT_THAT(JobRemarks(plan), ElementsAre(HasSubstr("because strategy.local.virtual_replicas is 4")));
}

TEST(JobRemarks, WorkersThatGetNoSamplesAreCounted) {
  EXPECT_THAT(JobRemarks(Workers(200, 128)),
              ElementsAre(HasSubstr("a step has 128 samples: 72 of 200 workers get none")));
}

TEST(JobRemarks, ManyWorkersOnFewCoresGetARemark) {
  EXPECT_THAT(JobRemarks(Workers(100, 384), 2),
              ElementsAre(HasSubstr("100 workers on 2 cores: each worker gets about 2 % of one core")));
  EXPECT_THAT(JobRemarks(Workers(100, 384)), IsEmpty()) << "they have several computers";
  EXPECT_THAT(JobRemarks(Workers(9, 384), 2), IsEmpty());
}

TEST(JobRemarks, BatchLargerThanDataGetsRemark) {
  EXPECT_THAT(JobRemarks(Workers(4096, 524288)),
              ElementsAre(HasSubstr("global batch of 524,288 samples is larger than the 54,000")));
}

TEST(JobRemarks, AsynchronousWorkersThatGetNoBatchesAreCounted) {
  proto::JobPlan plan = Workers(500, 64000);
  plan.mutable_job()->mutable_strategy()->mutable_parameter_server()->mutable_asynchronous();
  EXPECT_THAT(JobRemarks(plan),
              ElementsAre(HasSubstr("an epoch has 422 batches of 128 samples: 78 of 500 workers get none")));
}

}  // namespace
}  // namespace tethys
