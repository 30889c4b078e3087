#include "runtime/base/control_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kSecondVersion[] = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

std::vector<std::string> Found(const std::string& groups, const std::string& mounts) {
  std::vector<std::string> found;
  for (const GroupPlace& place : FindGroups(groups, mounts)) {
    found.push_back(absl::StrCat(place.controller, "@", place.mount, "+", place.path));
  }
  return found;
}

class ControlGroupTest : public ::testing::Test {
 protected:
  // Writes a file that takes the place of a file of /proc or /sys.
  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root_.path() + path;
    ASSERT_TRUE(CreateDirectories(whole.substr(0, whole.rfind('/'))).ok());
    ASSERT_TRUE(WriteFileAtomically(whole, text).ok());
  }
  void Belongs(const std::string& groups, const std::string& mounts) {
    Write("/proc/self/cgroup", groups);
    Write("/proc/self/mountinfo", mounts);
  }
  GroupLimits Limits() const { return ReadGroupLimits(root_.path()); }

  testing::TempDirectory root_;
};

TEST_F(ControlGroupTest, CgroupVersion2AppliesLimitsOfTheGroupAndItsParents) {
  Belongs("0::/slurm/job_7/step_0\n", kSecondVersion);
  const std::string top = "/sys/fs/cgroup";
  Write(top + "/slurm/memory.max", "max\n");
  Write(top + "/slurm/cpu.max", "150000 100000\n");
  Write(top + "/slurm/pids.max", "2048\n");
  Write(top + "/slurm/pids.current", "2040\n");
  Write(top + "/slurm/job_7/memory.max", "1000\n");
  Write(top + "/slurm/job_7/memory.current", "600\n");
  Write(top + "/slurm/job_7/memory.stat", "anon 100\ninactive_file 200\n");
  Write(top + "/slurm/job_7/step_0/memory.max", "5000\n");
  Write(top + "/slurm/job_7/step_0/memory.current", "0\n");
  Write(top + "/slurm/job_7/step_0/cpu.max", "max 100000\n");
  const GroupLimits limits = Limits();
  EXPECT_EQ(limits.memory_bytes, 1000);
  EXPECT_EQ(limits.memory_left, 600) << "files that the kernel can drop count as free";
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.tasks, 2048);
  EXPECT_EQ(limits.tasks_left, 8);
}

TEST_F(ControlGroupTest, CgroupVersion1ReadsEachLimitFromItsController) {
  Belongs("9:pids:/a\n5:cpu,cpuacct:/b\n4:memory:/a/b\n1:name=systemd:/x\n",
          "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
          "32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
          "33 24 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700\n");
  Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/b/cpu.cfs_quota_us", "50000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/b/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/pids/a/pids.max", "max\n");
  const GroupLimits limits = Limits();
  EXPECT_EQ(limits.memory_bytes, 700);
  EXPECT_EQ(limits.memory_left, 600);
  EXPECT_EQ(limits.cores, 0.5);
  EXPECT_EQ(limits.tasks, -1);
}

TEST_F(ControlGroupTest, LimitsOfAContainerAreReadFromTheRootOfItsMount) {
  // The process has a cgroup namespace of its own.
  Belongs("0::/\n", kSecondVersion);
  Write("/sys/fs/cgroup/memory.max", "1234\n");
  EXPECT_EQ(Limits().memory_bytes, 1234);
  // The process has no cgroup namespace of its own: /proc gives the group's path on the host, and the mount
  // shows only that group.
  Belongs("4:memory:/docker/0a1b\n",
          "31 24 0:27 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4321\n");
  EXPECT_EQ(Limits().memory_bytes, 4321);
}

TEST_F(ControlGroupTest, WithoutControlGroupsThereAreNoLimits) {
  const GroupLimits limits = Limits();
  EXPECT_EQ(limits.memory_bytes, -1);
  EXPECT_EQ(limits.memory_left, -1);
  EXPECT_EQ(limits.cores, -1);
  EXPECT_EQ(limits.tasks, -1);
  EXPECT_GE(UsableCores(root_.path()), 1);
}

TEST_F(ControlGroupTest, QuotaBelowOneCoreLeavesOneUsableCore) {
  Belongs("0::/\n", kSecondVersion);
  Write("/sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(UsableCores(root_.path()), 1);
}

TEST_F(ControlGroupTest, KillsForLackOfMemoryAreCounted) {
  Write("/proc/vmstat", "pgfault 7\noom_kill 3\n");
  EXPECT_EQ(ReadMemoryKills(root_.path()).machine, 3);
  EXPECT_EQ(ReadMemoryKills(root_.path()).group, -1);
  Belongs("0::/job\n", kSecondVersion);
  Write("/sys/fs/cgroup/job/memory.events", "low 0\noom 9\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(ReadMemoryKills(root_.path()).group, 2);
  Belongs("4:memory:/job\n", "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  Write("/sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  EXPECT_EQ(ReadMemoryKills(root_.path()).group, 5);
}

TEST(FindGroupsTest, ReadsEscapedBlanksColonsAndBothVersionsTogether) {
  EXPECT_THAT(Found("0::/a:b\n", "1 2 0:3 / /mnt/my\\040groups rw shared:4 - cgroup2 none rw\n"),
              ElementsAre("@/mnt/my groups+/a:b"));
  EXPECT_THAT(Found("4:memory:/j\n0::/s\n",
                    "1 2 0:3 / /c/memory rw - cgroup none rw,memory\n"
                    "1 2 0:3 / /c/unified rw - cgroup2 none rw\n"),
              ElementsAre("memory@/c/memory+/j", "@/c/unified+/s"));
}

TEST(FindGroupsTest, GroupOutsideOfItsMountHasNoPath) {
  EXPECT_THAT(Found("0::/../other\n", kSecondVersion), ElementsAre("@/sys/fs/cgroup+"));
  EXPECT_THAT(Found("0::/ab/c\n", "1 2 0:3 /a /m rw - cgroup2 none rw\n"), ElementsAre("@/m+"));
}

TEST(FindGroupsTest, MalformedLinesAreSkipped) {
  EXPECT_THAT(Found("", ""), IsEmpty());
  EXPECT_THAT(Found("0:/\n::\nx\n0::relative\n", kSecondVersion), IsEmpty());
  EXPECT_THAT(Found("0::/a\n", "1 2 - cgroup2\n - \n\\04"), IsEmpty());
}

}  // namespace
}  // namespace tethys
