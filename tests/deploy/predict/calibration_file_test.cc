#include "deploy/predict/calibration_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/file.h"
#include "tests/deploy/predict/predict_fixture.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

class CalibrationFileTest : public ::testing::Test {
 protected:
  const testing::TempDirectory folder_;
  const CalibrationKey key_ = {.build_id = "build", .hosts = {"b", "a"}};
  const std::string path_ = CalibrationPath(folder_.path(), key_);
};

TEST_F(CalibrationFileTest, CalibrationIsReadBackAsItWasWritten) {
  ASSERT_TRUE(WriteCalibration(path_, SmallHosts()).ok());
  const absl::StatusOr<proto::Calibration> read = ReadCalibration(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), SmallHosts().SerializeAsString());
  EXPECT_TRUE(CheckCalibration(*read, key_, path_).ok());
}

TEST_F(CalibrationFileTest, PathDependsOnTheWholeKeyButNotOnTheOrderOfHosts) {
  CalibrationKey other = key_;
  other.hosts = {"a", "b"};
  EXPECT_EQ(CalibrationPath(folder_.path(), other), path_);
  other.tls = true;
  EXPECT_NE(CalibrationPath(folder_.path(), other), path_);
}

TEST_F(CalibrationFileTest, CalibrationOfAnotherBuildModelOrTlsSettingIsRefused) {
  CalibrationKey other = key_;
  other.build_id = "newer";
  EXPECT_THAT(std::string(CheckCalibration(SmallHosts(), other, "F").message()),
              HasSubstr("this is build newer"));
  other = key_;
  other.model_signature = 7;
  EXPECT_THAT(std::string(CheckCalibration(SmallHosts(), other, "F").message()), HasSubstr("another model"));
  other = key_;
  other.tls = true;
  EXPECT_THAT(std::string(CheckCalibration(SmallHosts(), other, "F").message()), HasSubstr("without TLS"));
}

TEST_F(CalibrationFileTest, TruncatedOrEmptyCalibrationIsRefused) {
  ASSERT_TRUE(WriteCalibration(path_, SmallHosts()).ok());
  const std::string text = *ReadFile(path_);
  ASSERT_TRUE(WriteFileAtomically(path_, text.substr(0, text.size() / 2)).ok());
  const absl::Status status = ReadCalibration(path_).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  ASSERT_TRUE(WriteFileAtomically(path_, "{}").ok());
  EXPECT_THAT(std::string(ReadCalibration(path_).status().message()), HasSubstr("names no build"));
}

TEST_F(CalibrationFileTest, ErrorNamesTheFieldWithAnImpossibleNumber) {
  proto::Calibration calibration = SmallHosts();
  calibration.mutable_link(0)->set_bytes_per_second(-1);
  ASSERT_TRUE(WriteCalibration(path_, calibration).ok());
  const absl::Status status = ReadCalibration(path_).status();
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("LinkCalibration.bytes_per_second is -1"));
  calibration = SmallHosts();
  calibration.mutable_overheads()->set_join(1e300);
  ASSERT_TRUE(WriteCalibration(path_, calibration).ok());
  EXPECT_THAT(std::string(ReadCalibration(path_).status().message()),
              HasSubstr("Overheads.join is 1e+300; it must lie between 0 and 1e+18"));
}

TEST(AgeTextTest, AgeIsInTheLargestUnitThatFits) {
  EXPECT_EQ(AgeText(100, 101), "1 second ago");
  EXPECT_EQ(AgeText(0, 600), "10 minutes ago");
  EXPECT_EQ(AgeText(0, 86400 * 3), "3 days ago");
  EXPECT_EQ(AgeText(5, 0), "in the future");
}

}  // namespace
}  // namespace tethys
