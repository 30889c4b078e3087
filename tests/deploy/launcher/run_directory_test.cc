#include "deploy/launcher/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RunDirectoryTest : public ::testing::Test {
 protected:
  const testing::TempDirectory directory_;
  const std::string path_ = directory_.Path("deep/run");
};

TEST_F(RunDirectoryTest, CreateMakesParents) {
  const auto directory = RunDirectory::Create(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_TRUE(FileExists(path_));
}

TEST_F(RunDirectoryTest, RefusesADirectoryInUse) {
  const auto first = RunDirectory::Create(path_);
  const auto second = RunDirectory::Create(path_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST_F(RunDirectoryTest, RefusesToOverwriteRunAndSuggestsResume) {
  ASSERT_TRUE(RunDirectory::Create(path_)->WriteJob(proto::Job()).ok());
  ASSERT_TRUE(CreateDirectories(path_ + "/checkpoints/step-7").ok());
  directory_.Write("deep/run/checkpoints/step-7/manifest.textproto", "");
  const auto again = RunDirectory::Create(path_);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("--resume"));
}

TEST_F(RunDirectoryTest, ExistingRunWithoutACheckpoint_AdvisesAnotherDirectory) {
  ASSERT_TRUE(RunDirectory::Create(path_)->WriteJob(proto::Job()).ok());
  ASSERT_TRUE(CreateDirectories(path_ + "/checkpoints/step-7.tmp").ok());
  EXPECT_THAT(std::string(RunDirectory::Create(path_).status().message()),
              HasSubstr("this run saved no checkpoint"));
}

TEST_F(RunDirectoryTest, OpensARunToResumeIt) {
  ASSERT_TRUE(RunDirectory::Create(path_)->WriteJob(proto::Job()).ok());
  EXPECT_TRUE(RunDirectory::Open(path_).ok());
}

TEST_F(RunDirectoryTest, RefusesToResumeMissingRun) {
  EXPECT_EQ(RunDirectory::Open(path_).status().code(), absl::StatusCode::kNotFound);
}

TEST(RunPathTest, FreshRunPathContainsTheJobNameAndTheTime) {
  EXPECT_THAT(FreshRunPath("my job/7"), MatchesRegex("runs/my_job_7-[0-9]+-[0-9]+"));
}

}  // namespace
}  // namespace tethys
