#include "deploy/sweep/batch_time.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

TEST(BatchTimeTest, DisturbedVisitsArePutAside) {
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

}  // namespace
}  // namespace tethys
