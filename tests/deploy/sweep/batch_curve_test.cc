#include "deploy/sweep/batch_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace tethys {
namespace {

proto::BatchTime Time(int64_t batch, double step) {
  proto::BatchTime time;
  time.set_batch(batch);
  time.set_step(step);
  time.set_forward(step / 4);
  time.set_backward(step / 2);
  time.set_update(step / 4);
  time.add_ready(step / 2);
  return time;
}

TEST(BatchCurveTest, PointsAreJoinedByLines) {
  const BatchCurve curve = *BatchCurve::Create({Time(8, 1), Time(16, 2), Time(32, 10)});
  EXPECT_DOUBLE_EQ(curve.Step(8), 1);
  EXPECT_DOUBLE_EQ(curve.Step(12), 1.5);
  EXPECT_DOUBLE_EQ(curve.Step(24), 6);
  EXPECT_FALSE(curve.extrapolated(8) || curve.extrapolated(32));
  EXPECT_DOUBLE_EQ(curve.Step(48), 18);
  EXPECT_TRUE(curve.extrapolated(48) && curve.extrapolated(7));
  EXPECT_DOUBLE_EQ(curve.At(24).forward(), 1.5);
  EXPECT_DOUBLE_EQ(curve.At(24).ready(0), 3);
}

TEST(BatchCurveTest, FittedLinesReplaceMeasuredPoints) {
  proto::Segment low, high;
  low.set_first(1), low.set_last(16), low.set_at_zero(1), low.set_per_sample(0.1);
  high.set_first(17), high.set_last(32), high.set_at_zero(2), high.set_per_sample(0.2);
  const BatchCurve curve =
      *BatchCurve::Create({Time(1, 1.2), Time(16, 2.5), Time(17, 5.5), Time(32, 8)}, {low, high});
  EXPECT_DOUBLE_EQ(curve.Step(16), 2.6);
  EXPECT_DOUBLE_EQ(curve.Step(17), 5.4);
  EXPECT_DOUBLE_EQ(curve.Step(100), 22);
  EXPECT_DOUBLE_EQ(curve.At(10).forward(), curve.Step(10) / 4);
}

TEST(BatchCurveTest, WithOneMeasuredPointTheStepTimeIsProportionalToTheBatch) {
  EXPECT_DOUBLE_EQ(BatchCurve::Create({Time(8, 2)})->Step(16), 4);
}

TEST(BatchCurveTest, NoStepIsNegativeBeyondThePoints) {
  const BatchCurve curve = *BatchCurve::Create({Time(10, 1), Time(11, 2)});
  EXPECT_GT(curve.Step(1), 0);
  EXPECT_GT(curve.At(1).forward(), 0);
}

TEST(BatchCurveTest, TimesThatMakeNoCurveAreRefused) {
  proto::Segment beyond;
  beyond.set_first(1), beyond.set_last(99), beyond.set_per_sample(1);
  EXPECT_FALSE(BatchCurve::Create({}).ok());
  EXPECT_FALSE(BatchCurve::Create({Time(8, 1), Time(8, 1)}).ok());
  EXPECT_FALSE(BatchCurve::Create({Time(0, 1)}).ok());
  EXPECT_FALSE(BatchCurve::Create({Time(8, 0)}).ok());
  EXPECT_FALSE(BatchCurve::Create({Time(8, std::nan(""))}).ok());
  EXPECT_FALSE(BatchCurve::Create({Time(1, 1), Time(8, 1)}, {beyond}).ok());
}

}  // namespace
}  // namespace tethys
