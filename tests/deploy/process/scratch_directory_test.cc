#include "deploy/process/scratch_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "absl/strings/match.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr time_t kOld = 3600;  // Age in seconds.

class ScratchDirectoryTest : public ::testing::Test {
 protected:
  ~ScratchDirectoryTest() override { unsetenv("TMPDIR"); }

  // Makes a folder such as a killed command leaves. Its last change was `age` seconds ago.
  std::string Leave(const std::string& name, time_t age) const {
    const std::string path = parent_.Path(name);
    TETHYS_CHECK(CreateDirectories(path).ok());
    parent_.Write(name + "/file", "text");
    Age(path, age);
    return path;
  }
  static void Age(const std::string& path, time_t age) {
    const timeval then = {time(nullptr) - age, 0};
    const timeval times[] = {then, then};
    TETHYS_CHECK(utimes(path.c_str(), times) == 0);
  }

  const testing::TempDirectory parent_;
};

TEST_F(ScratchDirectoryTest, LiesInTmpdirAndIsRemoved) {
  setenv("TMPDIR", parent_.path().c_str(), 1);
  std::string path;
  {
    const absl::StatusOr<ScratchDirectory> scratch = ScratchDirectory::Create();
    ASSERT_TRUE(scratch.ok()) << scratch.status();
    path = scratch->path();
    EXPECT_TRUE(absl::StartsWith(path, parent_.path() + "/")) << path;
    EXPECT_TRUE(FileExists(path));
  }
  EXPECT_FALSE(FileExists(path));
}

TEST_F(ScratchDirectoryTest, EmptyTmpdirMeansTmp) {
  setenv("TMPDIR", "", 1);
  EXPECT_TRUE(absl::StartsWith(ScratchDirectory::Create()->path(), "/tmp/"));
}

TEST_F(ScratchDirectoryTest, UnusableFolderIsNamedWithTheRemedy) {
  const absl::Status status = ScratchDirectory::CreateIn(parent_.Path("missing")).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(parent_.Path("missing")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("TMPDIR"));
}

TEST_F(ScratchDirectoryTest, FoldersOfKilledCommandsAreRemoved) {
  const std::string killed = Leave("tethys-scratch-abcdef", kOld);
  const std::string young = Leave("tethys-scratch-ghijkl", 0);
  const std::string others = Leave("other-scratch-abcdef", kOld);
  const absl::StatusOr<ScratchDirectory> living = ScratchDirectory::CreateIn(parent_.path());
  ASSERT_TRUE(living.ok());
  EXPECT_FALSE(FileExists(killed));
  EXPECT_TRUE(FileExists(young)) << "it may be about to be locked";
  EXPECT_TRUE(FileExists(others));
  Age(living->path(), kOld);
  ASSERT_TRUE(ScratchDirectory::CreateIn(parent_.path()).ok());
  EXPECT_TRUE(FileExists(living->path())) << "it is in use";
}

}  // namespace
}  // namespace tethys
