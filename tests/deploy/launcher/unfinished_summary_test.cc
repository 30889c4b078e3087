#include "deploy/launcher/unfinished_summary.h"

#include <gtest/gtest.h>

#include "runtime/telemetry/summary.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

TEST(UnfinishedSummaryTest, CulpritOnAnotherHost_IsNamedWithItsHost) {
  const testing::TempDirectory directory;
  RunResult result;
  result.status = absl::AbortedError("worker 1 on slave2 was killed by signal 9 (Killed) at step 7");
  result.culprit = "worker 1";
  result.host = "slave2";
  result.last_step = 7;
  ASSERT_TRUE(CompleteSummary(proto::JobPlan(), directory.path(), result, absl::nullopt, {}).ok());
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(directory.path());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->status(), "failed");
  EXPECT_EQ(summary->first_failure().role(), "worker");
  EXPECT_EQ(summary->first_failure().index(), 1);
  EXPECT_EQ(summary->first_failure().host(), "slave2");
}

}  // namespace
}  // namespace tethys
