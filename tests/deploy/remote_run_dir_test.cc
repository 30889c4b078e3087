#include "deploy/remote_run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/base/file.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// "There" is another folder of this machine, which a shell reaches in place of ssh.
class RemoteRunDirTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/remote run XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    here_ = root_ + "/it's a run";
    there_ = {.host = "slave1", .ssh = {"sh", "-c", "eval \"$0\""}, .folder = root_ + "/there"};
    Write(here_, "job.textproto", "job");
  }
  void TearDown() override { ASSERT_TRUE(RemoveRecursively(root_).ok()); }

  static void Write(const std::string& directory, const std::string& name, const std::string& text) {
    ASSERT_TRUE(CreateDirectories(directory).ok());
    ASSERT_TRUE(WriteFileAtomically(directory + "/" + name, text).ok());
  }
  std::string Chief() const { return ChiefRunDir(there_, here_); }

  std::string root_;
  std::string here_;
  Place there_;
};

TEST_F(RemoteRunDirTest, AChiefHereWritesHere) {
  EXPECT_EQ(ChiefRunDir({}, here_), here_);
  EXPECT_TRUE(SendRunDir({}, here_).ok());
  EXPECT_TRUE(FetchRunDir({}, here_).ok());
}

TEST_F(RemoteRunDirTest, EachRunHasItsDirectoryThere) {
  EXPECT_THAT(Chief(), StartsWith(root_ + "/there/runs/it's a run-"));
  EXPECT_EQ(Chief(), ChiefRunDir(there_, here_));
  EXPECT_NE(Chief(), ChiefRunDir(there_, here_ + "2"));
}

TEST_F(RemoteRunDirTest, SendsTheJobAndFetchesTheResults) {
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  EXPECT_EQ(*ReadFile(Chief() + "/job.textproto"), "job");
  Write(Chief() + "/checkpoints/step-7", "manifest", "saved");
  const absl::Status fetched = FetchRunDir(there_, here_);
  ASSERT_TRUE(fetched.ok()) << fetched;
  EXPECT_EQ(*ReadFile(here_ + "/checkpoints/step-7/manifest"), "saved");
  EXPECT_FALSE(FileExists(Chief()));
}

TEST_F(RemoteRunDirTest, LogsAndTheLockStayWhereTheyAre) {
  Write(here_, ".lock", "");
  Write(here_ + "/log", "chief-0.log", "here");
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  EXPECT_FALSE(FileExists(Chief() + "/.lock"));
  EXPECT_FALSE(FileExists(Chief() + "/log"));
  EXPECT_FALSE(FileExists(here_ + "/.transfer.tar"));
}

TEST_F(RemoteRunDirTest, WhereNothingIsNothingIsFetched) {
  EXPECT_TRUE(FetchRunDir(there_, here_).ok());
  EXPECT_EQ(*ReadFile(here_ + "/job.textproto"), "job");
}

TEST_F(RemoteRunDirTest, AFailedTransferSaysWhereTheFilesAre) {
  there_.ssh = {"sh", "-c", "echo 'no route' >&2; exit 255"};
  EXPECT_THAT(std::string(FetchRunDir(there_, here_).message()),
              AllOf(HasSubstr("cannot fetch the results from slave1:" + Chief()), HasSubstr("no route")));
}

}  // namespace
}  // namespace tethys
