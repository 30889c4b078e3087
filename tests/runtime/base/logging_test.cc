#include "runtime/base/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/shared_log.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Logged(bool shared, bool all) {
  ::testing::internal::CaptureStderr();
  if (shared) ShareStandardError("worker 1 on node2", all);
  TETHYS_LOG(Info, "ready");
  TETHYS_LOG(Warning, "slow");
  return ::testing::internal::GetCapturedStderr();
}

// One test covers all cases, because ShareStandardError holds for the rest of the process.
TEST(LoggingTest, SharedStandardError_NamesTheProcessAndOmitsInfoByDefault) {
  EXPECT_THAT(Logged(/*shared=*/false, /*all=*/false), StartsWith("I "));
  const std::string most = Logged(/*shared=*/true, /*all=*/false);
  EXPECT_THAT(most, StartsWith("[worker 1 on node2] W "));
  EXPECT_THAT(most, Not(HasSubstr("ready")));
  const std::string all = Logged(/*shared=*/true, /*all=*/true);
  EXPECT_THAT(all, StartsWith("[worker 1 on node2] I "));
  EXPECT_THAT(all, HasSubstr("\n[worker 1 on node2] W "));
}

}  // namespace
}  // namespace tethys
