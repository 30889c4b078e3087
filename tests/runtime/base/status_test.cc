#include "runtime/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace tethys {
namespace {

TEST(StatusTest, AnnotateKeepsTheCodeAndPutsTheContextFirst) {
  const absl::Status status = Annotate(absl::DataLossError("checksum"), "model.safetensors");
  EXPECT_EQ(StatusText(status), "DATA_LOSS: model.safetensors: checksum");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "context").ok());
  EXPECT_EQ(StatusText(absl::OkStatus()), "OK");
}

TEST(StatusTest, ErrnoBecomesTheNearestStatusCode) {
  EXPECT_EQ(StatusText(ErrnoStatus(ENOENT, "cannot open x")),
            "NOT_FOUND: cannot open x: No such file or directory");
  EXPECT_EQ(ErrnoStatus(EADDRINUSE, "").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrnoStatus(EACCES, "").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(ETIMEDOUT, "").code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ErrnoStatus(ECONNREFUSED, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrnoStatus(EDOM, "").code(), absl::StatusCode::kUnknown);
}

absl::StatusOr<std::unique_ptr<int>> Make(bool succeed) {
  if (!succeed) return absl::AbortedError("no");
  return std::make_unique<int>(3);
}

absl::Status Use(bool first, bool second, int& sum) {
  TETHYS_ASSIGN_OR_RETURN(const auto a, Make(first));
  TETHYS_ASSIGN_OR_RETURN(const auto b, Make(second));
  TETHYS_RETURN_IF_ERROR(absl::OkStatus());
  sum = *a + *b;
  return absl::OkStatus();
}

TEST(StatusTest, AssignOrReturnMovesValuesAndReturnsTheFirstError) {
  int sum = 0;
  EXPECT_EQ(Use(true, false, sum).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(sum, 0);
  EXPECT_TRUE(Use(true, true, sum).ok());
  EXPECT_EQ(sum, 6);
}

TEST(StatusDeathTest, FailedCheckNamesFileLineAndCondition) {
  EXPECT_DEATH(TETHYS_CHECK(1 == 2, "of ", 3), "status_test.cc:[0-9]+: check failed: 1 == 2 of 3");
}

}  // namespace
}  // namespace tethys
