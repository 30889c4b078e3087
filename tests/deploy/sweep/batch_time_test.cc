#include "deploy/sweep/batch_time.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

TEST(BatchTimeTest, DisturbedVisitsAreCountedButLeftOutOfTheTimes) {
  std::vector<proto::StepVisit> visits(3);
  for (int i = 0; i < 3; ++i) {
    visits[i].set_batch(8);
    visits[i].set_step(i == 2 ? 9e-3 : 1e-3);
    visits[i].add_ready(visits[i].step() / 2);
    visits[i].set_disturbed(i == 2);
  }
  const proto::BatchTime time = BatchTimeOf(visits);
  EXPECT_NEAR(time.step(), 1e-3, 1e-9);
  EXPECT_NEAR(time.ready(0), 0.5e-3, 1e-9);
  EXPECT_EQ(time.disturbed(), 1);
}

// With a quota of half a core, half of the steps need not wait for the quota. Each of the other steps waits
// as long as it computes.
TEST(BatchTimeTest, MeanBatchTimeIncludesWaitsForTheCpuQuota) {
  std::vector<proto::StepVisit> visits(2);
  for (proto::StepVisit& visit : visits) {
    visit.set_batch(8);
    visit.set_steps(10);
    visit.set_step(1e-3);
    visit.set_forward(0.4e-3);
    visit.set_seconds(20e-3);
    visit.add_ready(0.5e-3);
    visit.set_disturbed(true);
  }
  const proto::BatchTime time = MeanBatchTimeOf(visits);
  EXPECT_NEAR(time.step(), 2e-3, 1e-9);
  EXPECT_NEAR(time.forward(), 0.8e-3, 1e-9);
  EXPECT_NEAR(time.ready(0), 1e-3, 1e-9);
}

}  // namespace
}  // namespace tethys
