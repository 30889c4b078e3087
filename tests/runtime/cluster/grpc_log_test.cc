#include "runtime/cluster/grpc_log.h"

#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <string>

namespace tethys {
namespace {

TEST(GrpcLogTest, GrpcErrorIsLoggedAsAnInfoLine) {
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // gRPC sets the verbosity when it is first used.
  LogWhatGrpcLogs();
  ::testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "Waiting for thread pool to idle before %s", "shutting down");
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, ::testing::StartsWith("I "));
  EXPECT_THAT(line, ::testing::HasSubstr("] gRPC: Waiting for thread pool to idle before shutting down\n"));
}

}  // namespace
}  // namespace tethys
