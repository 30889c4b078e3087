#include "deploy/flags/target_accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<absl::optional<double>> Given(const std::vector<std::string>& words) {
  return GivenTarget(ParseFlags({.verb = "report", .flags = {TargetAccuracyFlag()}}, words).value());
}

TEST(TargetAccuracyTest, ValueMustBeAboveZeroAndAtMostOne) {
  EXPECT_EQ(**Given({"--target_accuracy=0.85"}), 0.85);
  EXPECT_FALSE(Given({})->has_value());
  for (const char* wrong : {"85", "0", "-0.5", "nan", "inf", "85%", "much"}) {
    const absl::Status status = Given({absl::StrCat("--target_accuracy=", wrong)}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("0.85 for 85 %"));
  }
}

}  // namespace
}  // namespace tethys
