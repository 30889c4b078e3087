#include "runtime/chief/best_epoch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace tethys {
namespace {

class BestEpochTest : public ::testing::Test {
 protected:
  bool Note(double loss, double accuracy, bool validated = true) {
    proto::EpochResult result;
    result.set_epoch(epoch_++);
    result.set_step(10 * epoch_);
    result.set_validated(validated);
    result.set_validation_loss(loss);
    result.set_validation_accuracy(accuracy);
    return NoteIfBest(monitor_, result, state_);
  }

  proto::Monitor monitor_ = proto::VALIDATION_LOSS;
  int64_t epoch_ = 0;
  proto::TrainingState state_;
};

TEST_F(BestEpochTest, FirstValidatedEpoch_BecomesTheBest) {
  EXPECT_FALSE(Note(4, 0.1, /*validated=*/false));
  EXPECT_FALSE(state_.has_best());
  EXPECT_TRUE(Note(4, 0.1));
  EXPECT_EQ(state_.best().epoch(), 1);
  EXPECT_EQ(state_.best().step(), 20);
  EXPECT_EQ(state_.best().validation_loss(), 4);
}

TEST_F(BestEpochTest, ByLoss_LowerLossIsBetterAtAnyAccuracy) {
  EXPECT_TRUE(Note(4, 0.5));
  EXPECT_TRUE(Note(3, 0.4));
  EXPECT_FALSE(Note(3, 0.9)) << "the first of equal ones stays";
  EXPECT_FALSE(Note(5, 0.9));
  EXPECT_EQ(state_.best().epoch(), 1);
}

TEST_F(BestEpochTest, ByAccuracy_HigherAccuracyIsBetter) {
  monitor_ = proto::VALIDATION_ACCURACY;
  EXPECT_TRUE(Note(4, 0.5));
  EXPECT_FALSE(Note(3, 0.4));
  EXPECT_TRUE(Note(5, 0.6));
}

TEST_F(BestEpochTest, NaN_IsNeverBest) {
  EXPECT_FALSE(Note(NAN, 0.5));
  EXPECT_TRUE(Note(4, 0.5));
}

}  // namespace
}  // namespace tethys
