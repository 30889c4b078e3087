#include "runtime/chief/early_stopping.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tethys {
namespace {

// The number of epochs after which the rule `text` ends training; 0: it never does. `losses` holds the
// validation loss of each epoch; an epoch's accuracy is 1 minus its loss.
int64_t StopsAfter(const std::string& text, const std::vector<double>& losses) {
  proto::EarlyStopping rule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &rule)) << text;
  proto::EarlyStoppingState state;
  for (size_t epoch = 0; epoch < losses.size(); ++epoch) {
    proto::EpochResult result;
    result.set_epoch(static_cast<int64_t>(epoch));
    result.set_validated(true);
    result.set_validation_loss(losses[epoch]);
    result.set_validation_accuracy(1 - losses[epoch]);
    WatchEpoch(rule, result, state);
    if (StopsEarly(rule, state)) return static_cast<int64_t>(epoch) + 1;
  }
  return 0;
}

TEST(EarlyStoppingTest, ImprovingLoss_NeverStopsTraining) {
  EXPECT_EQ(StopsAfter("patience: 1", {4, 3, 2, 1}), 0);
}

TEST(EarlyStoppingTest, Patience_CountsConsecutiveEpochsWithoutImprovement) {
  EXPECT_EQ(StopsAfter("patience: 2", {4, 5, 3, 4, 5}), 5);
  EXPECT_EQ(StopsAfter("patience: 3", {4, 5, 3, 4, 5}), 0);
}

TEST(EarlyStoppingTest, PatienceZero_ActsAsOne) {
  EXPECT_EQ(StopsAfter("patience: 0", {4, 5}), 2);
  EXPECT_EQ(StopsAfter("patience: 1", {4, 5}), 2);
}

TEST(EarlyStoppingTest, EqualValue_IsNoImprovement) { EXPECT_EQ(StopsAfter("patience: 1", {4, 4}), 2); }

TEST(EarlyStoppingTest, MinDelta_MustBeExceeded) {
  EXPECT_EQ(StopsAfter("patience: 1 min_delta: 0.5", {4, 3.5}), 2);
  EXPECT_EQ(StopsAfter("patience: 1 min_delta: 0.5", {4, 3.25}), 0);
  EXPECT_EQ(StopsAfter("patience: 2 min_delta: 0.5", {4, 3.75, 3.25}), 0) << "against the best, not the last";
}

TEST(EarlyStoppingTest, Accuracy_MustGrow) {
  EXPECT_EQ(StopsAfter("patience: 1 monitor: VALIDATION_ACCURACY", {0.5, 0.25, 0.125}), 0);
  EXPECT_EQ(StopsAfter("patience: 1 monitor: VALIDATION_ACCURACY", {0.5, 0.75}), 2);
  EXPECT_EQ(StopsAfter("patience: 1 monitor: VALIDATION_ACCURACY min_delta: 0.25", {0.5, 0.25}), 2);
}

TEST(EarlyStoppingTest, EpochsBeforeStart_AreIgnored) {
  EXPECT_EQ(StopsAfter("patience: 1 start_from_epoch: 2", {1, 2, 3, 4}), 4);
}

TEST(EarlyStoppingTest, NaN_IsNoImprovement) {
  EXPECT_EQ(StopsAfter("patience: 2", {NAN, NAN}), 2);
  EXPECT_EQ(StopsAfter("patience: 2", {NAN, 4, 3}), 0);
}

}  // namespace
}  // namespace tethys
