#include "runtime/chief/early_stopping.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tethys {
namespace {

// The number of epochs after which the rule `text` ends training; 0: the rule never ends training. `losses`
// holds the validation loss of each epoch; an epoch's accuracy is 1 minus its loss.
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

TEST(EarlyStoppingTest, PatienceOfZero_StopsTrainingLikePatienceOfOne) {
  EXPECT_EQ(StopsAfter("patience: 0", {4, 5}), 2);
  EXPECT_EQ(StopsAfter("patience: 1", {4, 5}), 2);
}

TEST(EarlyStoppingTest, EqualValue_IsNoImprovement) { EXPECT_EQ(StopsAfter("patience: 1", {4, 4}), 2); }

TEST(EarlyStoppingTest, ImprovementOfExactlyMinDelta_DoesNotCount) {
  EXPECT_EQ(StopsAfter("patience: 1 min_delta: 0.5", {4, 3.5}), 2);
  EXPECT_EQ(StopsAfter("patience: 1 min_delta: 0.5", {4, 3.25}), 0);
  EXPECT_EQ(StopsAfter("patience: 2 min_delta: 0.5", {4, 3.75, 3.25}), 0) << "against the best, not the last";
}

TEST(EarlyStoppingTest, HigherAccuracy_IsAnImprovementAndLowerIsNot) {
  EXPECT_EQ(StopsAfter("patience: 1 monitor: VALIDATION_ACCURACY", {0.5, 0.25, 0.125}), 0);
  EXPECT_EQ(StopsAfter("patience: 1 monitor: VALIDATION_ACCURACY", {0.5, 0.75}), 2);
  EXPECT_EQ(StopsAfter("patience: 1 monitor: VALIDATION_ACCURACY min_delta: 0.25", {0.5, 0.25}), 2);
}

TEST(EarlyStoppingTest, EpochsBeforeStartFromEpoch_AreIgnored) {
  EXPECT_EQ(StopsAfter("patience: 1 start_from_epoch: 2", {1, 2, 3, 4}), 4);
}

TEST(EarlyStoppingTest, NaN_IsNoImprovement) {
  EXPECT_EQ(StopsAfter("patience: 2", {NAN, NAN}), 2);
  EXPECT_EQ(StopsAfter("patience: 2", {NAN, 4, 3}), 0);
}

// Whether training with the rule `after` can continue from a state that was trained with the rule `before`;
// "" means no rule.
bool Continues(const std::string& before, const std::string& after) {
  proto::EarlyStopping rule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(before, &rule));
  proto::EpochResult result;
  result.set_epoch(9);
  result.set_validated(true);
  result.set_validation_loss(2);
  proto::TrainingState state;
  WatchEpoch(rule, result, *state.mutable_early_stopping());
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(after, &rule));
  const bool continues = ContinueWatch(after.empty() ? nullptr : &rule, state);
  EXPECT_EQ(continues, state.has_early_stopping());
  return continues;
}

TEST(ContinueWatchTest, BestValue_IsForgottenIfMonitorOrStartFromEpochHasChanged) {
  EXPECT_TRUE(Continues("patience: 2", "patience: 5 min_delta: 0.1"));
  EXPECT_TRUE(Continues("monitor: VALIDATION_ACCURACY", "monitor: VALIDATION_ACCURACY patience: 5"));
  EXPECT_FALSE(Continues("patience: 2", "patience: 2 monitor: VALIDATION_ACCURACY"));
  EXPECT_FALSE(Continues("patience: 2", "patience: 2 start_from_epoch: 3"));
  EXPECT_FALSE(Continues("patience: 2", "")) << "epochs that follow are not watched";
}

TEST(ContinueWatchTest, StateOfAnOldBuildWithoutMonitor_KeepsItsBestValue) {
  proto::TrainingState state;
  state.mutable_early_stopping()->set_best(0.5);
  proto::EarlyStopping rule;
  rule.set_monitor(proto::VALIDATION_ACCURACY);
  EXPECT_TRUE(ContinueWatch(&rule, state));
  EXPECT_EQ(state.early_stopping().best(), 0.5);
}

}  // namespace
}  // namespace tethys
