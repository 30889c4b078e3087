#include "deploy/describe/chance_remark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A run with ten classes; the loss of guessing is 2.303.
proto::RunSummary RunOf(double test_accuracy, double train_accuracy, double train_loss, int64_t steps,
                        int64_t epochs) {
  proto::RunSummary summary;
  summary.mutable_test()->set_accuracy(test_accuracy);
  summary.mutable_train()->set_accuracy(train_accuracy);
  summary.mutable_train()->set_loss(train_loss);
  summary.mutable_train()->set_samples(1000);
  summary.set_steps(steps);
  summary.set_epochs(epochs);
  return summary;
}

TEST(ChanceRemarkTest, GoodModelAndModelWithoutClassesGetNoRemark) {
  EXPECT_EQ(ChanceRemark(RunOf(0.9, 0.9, 0.3, 17, 1), 10), "");
  EXPECT_EQ(ChanceRemark(RunOf(0.1, 0.1, 2.3, 17, 1), 0), "");
  EXPECT_EQ(ChanceRemark({}, 10), "");
}

TEST(ChanceRemarkTest, RemarkAboutDataPrecedesAdviceOnTraining) {
  for (const proto::RunSummary& run :
       {RunOf(0.1, 0.1, 2.3, 17, 1), RunOf(0.1, 0.1, 2.3, 5000, 20), RunOf(0.1, 0.1, 9, 5000, 20)}) {
    EXPECT_THAT(ChanceRemark(run, 10),
                StartsWith("That is hardly better than a guess among 10 classes. First look at labels"));
  }
}

TEST(ChanceRemarkTest, FewUpdatesLeadToAdviceToTrainLonger) {
  EXPECT_THAT(
      ChanceRemark(RunOf(0.1, 0.1, 2.29, 17, 1), 10),
      AllOf(HasSubstr("train longer: the run made only 17 updates."), Not(HasSubstr("learning_rate"))));
  // After one epoch the loss is high in any case, because its mean includes the beginning of training.
  EXPECT_THAT(ChanceRemark(RunOf(0.1, 0.1, 30, 400, 1), 10), Not(HasSubstr("learning_rate")));
}

TEST(ChanceRemarkTest, LossThatStaysAtChanceLeadsToAdviceOfALowerRate) {
  EXPECT_THAT(ChanceRemark(RunOf(0.1, 0.1, 2.303, 400, 10), 10),
              HasSubstr("try a fifth of optimizer.learning_rate, and train longer: the training loss, "
                        "2.303, is still the loss of a guess, 2.303."));
}

TEST(ChanceRemarkTest, LossAboveChanceLeadsToAdviceOfALowerRate) {
  EXPECT_THAT(ChanceRemark(RunOf(0.1, 0.1, 4, 400, 3), 10), HasSubstr(" lower optimizer.learning_rate"));
  EXPECT_THAT(ChanceRemark(RunOf(0.1, 0.1, std::numeric_limits<double>::quiet_NaN(), 400, 1), 10),
              HasSubstr(" lower optimizer.learning_rate"));
  EXPECT_THAT(ChanceRemark(RunOf(0.1, 0.1, 2.3, 5000, 20), 10), Not(HasSubstr("lower")));
}

TEST(ChanceRemarkTest, RemarkStatesHighTrainingAccuracyInsteadOfLearningRateAdvice) {
  EXPECT_THAT(ChanceRemark(RunOf(0.1, 0.95, 0.1, 5000, 20), 10),
              AllOf(HasSubstr("On training samples the accuracy of the model is 0.9500"),
                    Not(HasSubstr("learning_rate"))));
}

}  // namespace
}  // namespace tethys
