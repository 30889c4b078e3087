#include "deploy/hosts/build_in_use.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

constexpr time_t kLongAgo = 1;

class BuildInUseTest : public ::testing::Test {
 protected:
  void MakeOld() {
    const timespec times[] = {{kLongAgo, 0}, {kLongAgo, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, folder_.path().c_str(), times, 0), 0);
  }
  bool IsOld() const {
    struct stat info;
    return stat(folder_.path().c_str(), &info) == 0 && info.st_mtime == kLongAgo;
  }

  const testing::TempDirectory folder_;
};

TEST_F(BuildInUseTest, ModificationTimeOfTheBuildsFolderIsRenewedEveryInterval) {
  const BuildInUse in_use(folder_.path(), kMillisecond);
  for (int round = 0; round < 3; ++round) {
    MakeOld();
    while (IsOld()) std::this_thread::yield();
  }
}

TEST_F(BuildInUseTest, LongIntervalDoesNotDelayTheDestructor) {
  MakeOld();
  {
    const BuildInUse in_use(folder_.path(), BuildInUse::kInterval);
    while (IsOld()) std::this_thread::yield();
  }
  MakeOld();
  EXPECT_TRUE(IsOld());
}

TEST_F(BuildInUseTest, EmptyPathOfTheFolderIsAccepted) { const BuildInUse in_use("", BuildInUse::kInterval); }

}  // namespace
}  // namespace tethys
