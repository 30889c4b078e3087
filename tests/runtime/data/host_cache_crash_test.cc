// Tests a process that is killed, or a machine that loses power, while it makes an entry of the host's cache:
// the crash leaves the whole entry or nothing, and the next process makes the entry.
#include <gtest/gtest.h>

#include "runtime/data/host_cache.h"
#include "tests/testing/killed_process.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using testing::Crash;
using testing::ProcessEnd;

class HostCacheCrashTest : public ::testing::TestWithParam<Crash> {
 protected:
  void SetUp() override {
    if (const std::string why = testing::WhyNotTraced(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(HostCacheCrashTest, CrashWhileMakingAnEntryLeavesTheWholeEntryOrNone) {
  const testing::TempDirectory directory;
  const std::string folder = directory.Path("cache"), content(10'000, 'x');
  const auto make = [&] {
    const absl::StatusOr<HostCache> cache = HostCache::Open(folder);
    if (!cache.ok()) return false;
    return cache
        ->Entry(
            "entry", [&](const std::string& path) { return ReadFile(path).value_or("") == content; },
            [&](const std::string& path, absl::FunctionRef<void()>) -> absl::Status {
              return WriteFileAtomically(path, content);
            })
        .ok();
  };
  int without = 0, with = 0;
  for (int call = 0;; ++call) {
    SCOPED_TRACE(absl::StrCat("killed before system call ", call));
    ASSERT_TRUE(RemoveRecursively(folder).ok());
    const ProcessEnd end = testing::RunKilledBefore(call, GetParam(), make);
    ASSERT_NE(end, ProcessEnd::kFailed);
    const std::string path = folder + "/entry";
    ++(FileExists(path) ? with : without);
    if (FileExists(path)) {
      EXPECT_EQ(ReadFile(path).value(), content);
    }
    EXPECT_TRUE(make());
    EXPECT_EQ(ListDirectory(folder).value(), std::vector<std::string>{"entry"});
    if (end != ProcessEnd::kKilled || HasFailure()) break;
  }
  EXPECT_GT(without, 10);
  EXPECT_GT(with, 1);
}

INSTANTIATE_TEST_SUITE_P(Crashes, HostCacheCrashTest, ::testing::Values(Crash::kKill, Crash::kPowerCut),
                         [](const auto& crash) { return crash.param == Crash::kKill ? "Kill" : "PowerCut"; });

}  // namespace
}  // namespace tethys
