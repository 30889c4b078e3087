// Crashes a process before each system call of saving, pruning and cleaning up checkpoints. Afterwards the
// old or the new state is complete, and the next save succeeds.
#include <functional>
#include <set>

#include "tests/runtime/checkpoint/checkpoint_fixture.h"
#include "tests/testing/killed_process.h"

namespace tethys {
namespace {

using ::testing::AnyOf;
using testing::Crash;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::ProcessEnd;

class CheckpointCrashTest : public CheckpointTest, public ::testing::WithParamInterface<Crash> {
 protected:
  CheckpointCrashTest() : CheckpointTest(QuickDirectory()) {}
  void SetUp() override {
    if (const std::string why = testing::WhyNotTraced(); !why.empty()) GTEST_SKIP() << why;
  }

  // For every N, runs `before`, then `body` in a process that is killed before its Nth system call, then
  // `check`, until the body finishes. Returns the number of kills.
  int CrashEverywhere(const std::function<void()>& before, const std::function<bool()>& body,
                      const std::function<void()>& check) {
    for (int call = 0;; ++call) {
      SCOPED_TRACE(absl::StrCat("killed before system call ", call));
      EXPECT_TRUE(RemoveRecursively(root_).ok());
      before();
      const ProcessEnd end = testing::RunKilledBefore(call, GetParam(), body);
      EXPECT_NE(end, ProcessEnd::kFailed);
      check();
      if (end != ProcessEnd::kKilled || HasFailure()) return call;
    }
  }

  // Does the work of a resumed run: removes stale checkpoints, then saves over the files that the crash left.
  void GoOn(int64_t step) {
    const float before = NewestSalt();
    EXPECT_TRUE(RemoveStaleCheckpoints(root_).ok());
    EXPECT_EQ(NewestSalt(), before);
    EXPECT_THAT(Files(), Each(AnyOf("step-1", "step-2", "step-3")));
    EXPECT_TRUE(Save(step, 2).ok());
    EXPECT_EQ(NewestSalt(), 2);
  }
};

TEST_P(CheckpointCrashTest, CrashDuringASaveLeavesTheOldOrTheNewState) {
  std::set<float> found;
  const int calls = CrashEverywhere([&] { ASSERT_TRUE(Save(1, 0).ok()); }, [&] { return Save(2, 1).ok(); },
                                    [&] {
                                      found.insert(NewestSalt());
                                      GoOn(2);
                                    });
  EXPECT_THAT(found, ElementsAre(0, 1));
  EXPECT_GT(calls, 30) << "system calls that a save makes";
}

TEST_P(CheckpointCrashTest, CrashWhileResavingAStepLeavesTheOldOrTheNewState) {
  std::set<float> found;
  CrashEverywhere([&] { ASSERT_TRUE(Save(1, 0).ok()); }, [&] { return Save(1, 1).ok(); },
                  [&] {
                    found.insert(NewestSalt());
                    GoOn(1);
                  });
  EXPECT_THAT(found, ElementsAre(0, 1));
}

TEST_P(CheckpointCrashTest, CrashInTheFirstSaveLeavesNoCheckpointOrAWholeOne) {
  std::set<size_t> found;
  CrashEverywhere([] {}, [&] { return Save(1, 1).ok(); },
                  [&] {
                    found.insert(ListCheckpoints(root_)->size());
                    ASSERT_TRUE(RemoveStaleCheckpoints(root_).ok());
                    ASSERT_TRUE(Save(1, 2).ok());
                    EXPECT_EQ(NewestSalt(), 2);
                  });
  EXPECT_THAT(found, ElementsAre(0, 1));
}

TEST_P(CheckpointCrashTest, CrashDuringPruningKeepsTheNewestCheckpoint) {
  const auto save_three = [&] {
    ASSERT_TRUE(Save(1, 0).ok());
    ASSERT_TRUE(Save(2, 0).ok());
    ASSERT_TRUE(Save(3, 1).ok());
  };
  CrashEverywhere(
      save_three, [&] { return PruneCheckpoints(root_, 1, 3).ok(); },
      [&] {
        EXPECT_EQ(NewestSalt(), 1);
        const std::vector<CheckpointEntry> entries = *ListCheckpoints(root_);
        for (const CheckpointEntry& entry : entries) {
          EXPECT_TRUE(CheckpointReader::Open(entry.path, &model_).ok()) << entry.path;
        }
        GoOn(3);
      });
}

// Starts with the files of a save that crashed after it renamed the step's earlier checkpoint to .old.
TEST_P(CheckpointCrashTest, CrashDuringRemovalOfStaleFilesKeepsTheCheckpoint) {
  const auto crash = [&] {
    ASSERT_TRUE(Save(1, 0).ok());
    std::filesystem::copy(Path(1), Path(1) + ".tmp");
    std::filesystem::copy(Path(1), Path(2) + ".tmp");
    std::filesystem::rename(Path(1), Path(1) + ".old");
  };
  CrashEverywhere(
      crash, [&] { return RemoveStaleCheckpoints(root_).ok(); },
      [&] {
        EXPECT_EQ(NewestSalt(), 0);
        GoOn(1);
      });
}

INSTANTIATE_TEST_SUITE_P(EveryCrash, CheckpointCrashTest, ::testing::Values(Crash::kKill, Crash::kPowerCut),
                         [](const auto& info) { return info.param == Crash::kKill ? "Kill" : "PowerCut"; });

}  // namespace
}  // namespace tethys
