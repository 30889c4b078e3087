#include "deploy/launcher/run_pruning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/launcher/run_directory.h"
#include "runtime/base/file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kDay = 24 * 3600;
constexpr int64_t kNow = 1000 * kDay;

ListedRun Ended(const std::string& name, int64_t days_ago, RunState state = RunState::kFinished) {
  return {.name = name, .state = state, .started = kNow - days_ago * kDay};
}

std::vector<std::string> Pruned(const std::vector<ListedRun>& runs, const PruningRules& rules) {
  std::vector<std::string> names;
  for (const ListedRun& run : RunsToPrune(runs, rules, kNow)) names.push_back(run.name);
  return names;
}

TEST(RunsToPruneTest, NewestRunsAreNotChosenForRemoval) {
  const std::vector<ListedRun> runs = {Ended("a", 5), Ended("b", 1), Ended("c", 9), Ended("d", 3)};
  EXPECT_THAT(Pruned(runs, {.keep = 2}), ElementsAre("a", "c"));
  EXPECT_THAT(Pruned(runs, {.keep = 0}), ElementsAre("b", "d", "a", "c"));
  EXPECT_THAT(Pruned(runs, {.keep = 4}), IsEmpty());
  EXPECT_THAT(Pruned(runs, {.keep = 99}), IsEmpty());
}

TEST(RunsToPruneTest, RunIsRemovedOnlyIfItMeetsAllGivenRules) {
  const std::vector<ListedRun> runs = {Ended("a", 5), Ended("b", 1), Ended("c", 9), Ended("d", 3)};
  EXPECT_THAT(Pruned(runs, {.older_than = 3 * kDay}), ElementsAre("a", "c"));
  EXPECT_THAT(Pruned(runs, {.keep = 3, .older_than = 3 * kDay}), ElementsAre("c"));
  EXPECT_THAT(Pruned(runs, {.keep = 1, .older_than = 6 * kDay}), ElementsAre("c"));
}

TEST(RunsToPruneTest, NothingIsChosenWithoutARule) { EXPECT_THAT(Pruned({Ended("a", 5)}, {}), IsEmpty()); }

TEST(RunsToPruneTest, OnlyEndedRunsOfTheFolderItselfAreChosen) {
  EXPECT_THAT(
      Pruned({Ended("a", 5, RunState::kRunning), Ended("b", 5, RunState::kNoRun),
              Ended("c", 5, RunState::kDamaged), Ended("compare/d", 5), Ended("e", 5, RunState::kFailed),
              Ended("f", 5, RunState::kUnfinished), Ended("g", 5, RunState::kNotStarted)},
             {.keep = 0}),
      ElementsAre("e", "f", "g"));
}

TEST(RemoveRunTest, RunInUseAndDirectoryWithoutARunAreNotRemoved) {
  testing::TempDirectory folder;
  const std::string run = folder.path() + "/run", other = folder.path() + "/other";
  ASSERT_TRUE(CreateDirectories(run + "/log").ok());
  ASSERT_TRUE(CreateDirectories(other).ok());
  ASSERT_TRUE(WriteFileAtomically(run + "/job.textproto", "epochs: 1").ok());
  {
    const auto held = RunDirectory::Open(run);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(RemoveRun(run).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(RemoveRun(other).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(FileExists(run + "/log") && FileExists(other));
  EXPECT_TRUE(RemoveRun(run).ok());
  EXPECT_FALSE(FileExists(run));
}

}  // namespace
}  // namespace tethys
