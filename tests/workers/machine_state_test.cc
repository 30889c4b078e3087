#include "workers/machine_state.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

// Two control groups on one machine, as a process in one of the groups sees them. Both groups have a quota of
// CPU time.
class CpuLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"/proc/self", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu/b"}) {
      ASSERT_TRUE(CreateDirectories(directory_.path() + folder).ok());
    }
    directory_.Write("proc/self/mountinfo", "30 20 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    for (const char* group : {"a", "b"}) SetQuota(group, 20000);
  }

  void SetQuota(const std::string& group, int64_t microseconds) {
    const std::string folder = absl::StrCat("sys/fs/cgroup/cpu/", group, "/");
    directory_.Write(folder + "cpu.cfs_quota_us", absl::StrCat(microseconds, "\n"));
    directory_.Write(folder + "cpu.cfs_period_us", "100000\n");
  }

  CpuLimit In(const std::string& group) {
    directory_.Write("proc/self/cgroup", absl::StrCat("3:cpu:/", group, "\n"));
    return ReadCpuLimit(directory_.path());
  }

  const testing::TempDirectory directory_;
};

TEST_F(CpuLimitTest, ControlGroupsWithEqualQuotasHaveDifferentNames) {
  const CpuLimit a = In("a");
  EXPECT_DOUBLE_EQ(a.cores, 0.2);
  EXPECT_FALSE(a.group.empty());
  EXPECT_EQ(In("a").group, a.group);
  EXPECT_NE(In("b").group, a.group);
}

TEST_F(CpuLimitTest, ControlGroupWithoutQuotaHasNoLimit) {
  SetQuota("b", -1);
  EXPECT_EQ(In("b").cores, 0);
  EXPECT_EQ(In("b").group, "");
}

}  // namespace
}  // namespace tethys
