#include "runtime/cluster/job_plan.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

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

TEST(TotalSamplesTest, AreBoundedByEpochsAndSteps) {
  EXPECT_EQ(TotalSamples(Plan("epochs: 2")), 2000);
  EXPECT_EQ(TotalSamples(Plan("epochs: 2 max_steps: 10")), 320);
  EXPECT_EQ(TotalSamples(Plan("epochs: 2 max_steps: 1000")), 2000);
  EXPECT_EQ(TotalSamples(Plan("max_steps: 10")), 320);
  EXPECT_EQ(TotalSamples(Plan("max_steps: 1099511627776")), int64_t{32} << 40);
}

TEST(TotalSamplesTest, CountAnAsynchronousUpdateAsOneWorkersBatch) {
  EXPECT_EQ(TotalSamples(Plan(absl::StrCat(kAsynchronous, "max_steps: 10"))), 80);
  EXPECT_EQ(TotalSamples(Plan(absl::StrCat(kStale, "max_steps: 10"))), 320);
}

TEST(SamplesUsedTest, LeaveOutDroppedSamples) {
  EXPECT_EQ(SamplesUsed(Plan(""), 3, 64), 3064);
  EXPECT_EQ(SamplesUsed(Plan("drop_remainder: true"), 3, 64), 3 * 31 * 32 + 64);
  EXPECT_EQ(TotalSamples(Plan("drop_remainder: true epochs: 2")), 2 * 31 * 32);
}

}  // namespace
}  // namespace tethys
