#include "runtime/optim/schedule.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace tethys {
namespace {

// The learning rate of a job of 1,000 samples in epochs of 100.
double Rate(const std::string& text, int64_t samples_used, int workers = 4) {
  proto::Optimizer config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return LearningRateSchedule(config, {.epoch = 100, .job = 1000}, workers).At(samples_used);
}

TEST(LearningRateScheduleTest, LearningRateIsConstantWithoutASchedule) {
  EXPECT_EQ(Rate("learning_rate: 0.1", 0), 0.1);
  EXPECT_EQ(Rate("learning_rate: 0.1 schedule { constant {} }", 999), 0.1);
}

TEST(LearningRateScheduleTest, LinearDecaySpansTheJobAndThenStaysConstant) {
  const std::string config = "learning_rate: 1 schedule { linear_decay { end_learning_rate: 0.5 } }";
  EXPECT_DOUBLE_EQ(Rate(config, 0), 1);
  EXPECT_DOUBLE_EQ(Rate(config, 500), 0.75);
  EXPECT_DOUBLE_EQ(Rate(config, 1000), 0.5);
  EXPECT_DOUBLE_EQ(Rate(config, 5000), 0.5);
}

TEST(LearningRateScheduleTest, LinearDecaySpansTheGivenSamplesOrEpochs) {
  for (const std::string length : {"samples: 200", "epochs: 2", "samples: 0 epochs: 2"}) {
    for (const std::string kind : {"linear_decay", "polynomial_decay"}) {
      const std::string power = kind == "polynomial_decay" ? " power: 1" : "";
      const std::string config = "learning_rate: 1 schedule { " + kind + " { " + length + power + " } }";
      EXPECT_DOUBLE_EQ(Rate(config, 100), 0.5) << config;
      EXPECT_DOUBLE_EQ(Rate(config, 200), 0) << config;
    }
  }
}

TEST(LearningRateScheduleTest, StepDecayMultipliesTheRateAtEachListedSampleOrEpoch) {
  for (const std::string steps : {"samples: [300, 600]", "epochs: [3, 6]"}) {
    const std::string config = "learning_rate: 1 schedule { step_decay { factor: 0.5 " + steps + " } }";
    EXPECT_DOUBLE_EQ(Rate(config, 299), 1);
    EXPECT_DOUBLE_EQ(Rate(config, 300), 0.5);
    EXPECT_DOUBLE_EQ(Rate(config, 599), 0.5);
    EXPECT_DOUBLE_EQ(Rate(config, 10000), 0.25);
  }
}

TEST(LearningRateScheduleTest, CosineDecayFollowsHalfACosine) {
  const std::string config = "learning_rate: 1 schedule { cosine_decay { end_learning_rate: 0.2 } }";
  EXPECT_DOUBLE_EQ(Rate(config, 0), 1);
  EXPECT_DOUBLE_EQ(Rate(config, 250), 0.6 + 0.4 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(Rate(config, 500), 0.6);
  EXPECT_DOUBLE_EQ(Rate(config, 1000), 0.2);
  EXPECT_DOUBLE_EQ(Rate(config, 2000), 0.2);
}

TEST(LearningRateScheduleTest, PolynomialDecayFollowsItsPower) {
  const std::string config =
      "learning_rate: 1 schedule { polynomial_decay { end_learning_rate: 0.2 power: 2 } }";
  EXPECT_DOUBLE_EQ(Rate(config, 500), 0.2 + 0.8 * 0.25);
  EXPECT_DOUBLE_EQ(Rate(config, 1500), 0.2);
}

TEST(LearningRateScheduleTest, WarmUpFactorMultipliesTheDecayedRate) {
  const std::string config =
      "learning_rate: 1 schedule { warm_up { epochs: 2 start_factor: 0.5 } linear_decay {} }";
  EXPECT_DOUBLE_EQ(Rate(config, 0), 0.5);
  EXPECT_DOUBLE_EQ(Rate(config, 100), 0.75 * 0.9);
  EXPECT_DOUBLE_EQ(Rate(config, 200), 0.8);
  EXPECT_DOUBLE_EQ(Rate(config, 900), 0.1);
}

TEST(LearningRateScheduleTest, ScaleWithWorkersMultipliesTheWholeSchedule) {
  const std::string config =
      "learning_rate: 1 scale_with_workers: true schedule { linear_decay { end_learning_rate: 0.5 } }";
  EXPECT_DOUBLE_EQ(Rate(config, 0), 4);
  EXPECT_DOUBLE_EQ(Rate(config, 1000), 2);
}

}  // namespace
}  // namespace tethys
