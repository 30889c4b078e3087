#include "deploy/predict/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/predict/step_model.h"
#include "tests/deploy/predict/predict_fixture.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

TEST(DisturbanceTest, DisturbanceIsCpuUseByOthersOnTheWorstComputerOrInTheMedianRun) {
  proto::Calibration calibration;
  calibration.add_computer()->add_host("slave1");
  proto::ComputerCalibration& second = *calibration.add_computer();
  second.add_host("slave2");
  second.set_foreign(0.5);
  second.set_steal(0.1);
  EXPECT_EQ(DisturbanceText(DisturbanceOf(calibration)), "other programs used 60 % of the CPU of slave2");
  for (const double others : {0.1, 0.9, 0.8}) calibration.add_anchor()->set_others_cpu(others);
  calibration.add_anchor();  // An anchor whose disturbance is not known.
  EXPECT_EQ(DisturbanceText(DisturbanceOf(calibration)), "other programs used 80 % of the CPU");
}

TEST(DisturbanceTest, MeasurementsOfABusyMachineAreRefused) {
  EXPECT_TRUE(CheckDisturbance({.share = 0.5, .host = {}}, 0.5, "nothing is calibrated").ok());
  const absl::Status status = CheckDisturbance({.share = 0.86, .host = "h"}, 0.5, "nothing is calibrated");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("nothing is calibrated: other programs used 86 % of the CPU of h meanwhile"));
}

TEST(DisturbanceTest, WidensIntervalsAndIsStatedWithThePrediction) {
  const Shape784 shape{.workers = 2, .servers = 1};
  proto::Calibration calibration = SmallHosts();
  const proto::Prediction quiet = *Predict(PlanFor(shape), OneEach(shape), calibration);
  calibration.mutable_computer(0)->set_foreign(0.75);
  const proto::Prediction disturbed = *Predict(PlanFor(shape), OneEach(shape), calibration);
  EXPECT_NEAR(disturbed.step().high() / quiet.step().high(), 4, 1e-9);
  EXPECT_THAT(disturbed.remark(), HasSubstr("other programs used 75 % of the CPU of small"));
}

}  // namespace
}  // namespace tethys
