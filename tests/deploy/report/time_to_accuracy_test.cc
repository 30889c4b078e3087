#include "deploy/report/time_to_accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] =
    "epoch,train_loss,train_accuracy,validation_loss,validation_accuracy,train_seconds\n";

std::vector<proto::EpochPoint> Epochs(const std::string& lines) { return ParseEpochs(kHeader + lines); }

TEST(EpochsTest, TimesAreSummedOverEpochsAndUseTheLastLineOfEachEpoch) {
  const auto epochs = Epochs("0,1,0.5,1,0.5,2\n1,1,0.5,1,0.6,50\n1,1,0.5,1,0.7,3\n2,1,");
  ASSERT_EQ(epochs.size(), 2);
  EXPECT_EQ(epochs[1].seconds(), 5);
  EXPECT_EQ(epochs[1].validation_accuracy(), 0.7);
}

TEST(EpochsTest, LineOfALaterAttemptReplacesLinesOfLaterEpochs) {
  const auto epochs = Epochs("1,1,1,1,0.5,2\n2,1,1,1,0.6,2\n3,1,1,1,0.9,2\n2,1,1,1,0.55,2\n");
  ASSERT_EQ(epochs.size(), 2);
  EXPECT_EQ(BestAccuracy(epochs), 0.55);
}

TEST(EpochsTest, DamagedNumbersAreReadAsZero) {
  EXPECT_TRUE(ParseEpochs("").empty());
  const auto epochs = Epochs("1e300,x,x,nan,nan,inf\n");
  ASSERT_EQ(epochs.size(), 1);
  EXPECT_EQ(epochs[0].seconds(), 0);
  EXPECT_EQ(epochs[0].validation_accuracy(), 0);
}

TEST(TimeToAccuracyTest, TimeToAccuracyIsTheEndOfTheFirstEpochAtOrAboveTheTarget) {
  const auto epochs = Epochs("0,1,1,1,0.84,2\n1,1,1,1,0.85,2\n2,1,1,1,0.8,2\n3,1,1,1,0.9,2\n");
  EXPECT_EQ(FirstAtOrAbove(0.85, epochs)->seconds, 4);
  EXPECT_EQ(FirstAtOrAbove(0.85, epochs)->epochs, 2);
  EXPECT_EQ(FirstAtOrAbove(0.86, epochs)->seconds, 8) << "nothing is interpolated";
  EXPECT_FALSE(FirstAtOrAbove(0.91, epochs).has_value());
}

TEST(TimeToAccuracyTest, UnvalidatedEpochsReachNoTarget) {
  const auto epochs = Epochs("0,1,1,,,2\n1,1,1,1,0.85,2\n");
  EXPECT_EQ(FirstAtOrAbove(0.5, epochs)->epochs, 2);
  EXPECT_EQ(BestAccuracy(epochs), 0.85);
  EXPECT_FALSE(BestAccuracy(Epochs("0,1,1,,,2\n")).has_value());
}

TEST(TargetTest, TargetIsTheHighestWholePercentThatAllRunsReached) {
  EXPECT_DOUBLE_EQ(*CommonTarget({0.899, 0.8571}), 0.85);
  EXPECT_DOUBLE_EQ(*CommonTarget({0.29}), 0.29) << "100 * 0.29 is below 29";
  EXPECT_FALSE(CommonTarget({0.9, 0.009}).has_value());
  EXPECT_FALSE(CommonTarget({}).has_value());
}

TEST(TargetTest, TextSaysHowTheTargetWasChosen) {
  proto::AccuracyTarget target;
  target.set_accuracy(0.855);
  EXPECT_EQ(TargetText(target),
            "85.5 % validation accuracy (the highest whole percent that every run reached)");
  target.set_given(true);
  EXPECT_EQ(TargetText(target), "85.5 % validation accuracy");
}

}  // namespace
}  // namespace tethys
