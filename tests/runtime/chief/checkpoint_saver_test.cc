#include "runtime/chief/checkpoint_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "runtime/checkpoint/checkpoint_store.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Saves a model of one variable with 16 values. The save `id` is of step 10 * id.
class CheckpointSaverTest : public ::testing::Test {
 protected:
  CheckpointSaverTest() { EXPECT_TRUE(saver_.Start().ok()); }
  absl::Status Open(int64_t id) {
    const auto opened = std::make_shared<std::promise<absl::Status>>();
    saver_.Open(id, 10 * id, [opened](const absl::Status& status) { opened->set_value(status); });
    return opened->get_future().get();
  }
  absl::Status Write(int64_t id) { return saver_.Write(id, 0, 0, std::vector<float>(16, 1.5f)); }
  std::future<CheckpointSaver::Committed> Commit(int64_t id, std::function<absl::Status()> before) {
    proto::TrainingState state;
    state.set_step(10 * id);
    if (best_step_ > 0) state.mutable_best()->set_step(best_step_);
    const auto committed = std::make_shared<std::promise<CheckpointSaver::Committed>>();
    saver_.Commit(state, {}, {}, std::move(before),
                  [committed](const auto& result) { committed->set_value(result); });
    return committed->get_future();
  }
  std::vector<int64_t> Saved() const {
    std::vector<int64_t> steps;
    const std::vector<CheckpointEntry> entries = ListCheckpoints(directory_.path()).value();
    for (const CheckpointEntry& entry : entries) steps.push_back(entry.step);
    return steps;
  }

  static VariableSet Variables() {
    VariableSet variables;
    EXPECT_TRUE(variables.Add("w", {16}, "out", InitialValue::kZeros, 1, 1).ok());
    return variables;
  }

  const testing::TempDirectory directory_;
  int64_t best_step_ = 0;  // The step of the best epoch that Commit puts into states; 0: none.
  MonotonicClock clock_;
  CheckpointSaver saver_{
      {.root = directory_.path(), .job_name = "job", .variables = Variables(), .slots = {}, .keep = 2},
      clock_};
};

absl::Status Nothing() { return absl::OkStatus(); }

TEST_F(CheckpointSaverTest, OnlyTheNewestCheckpointsAreKept) {
  for (int64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(Open(id).ok());
    ASSERT_TRUE(Write(id).ok());
    const CheckpointSaver::Committed committed = Commit(id, Nothing).get();
    EXPECT_TRUE(committed.status.ok() && committed.pruned.ok()) << committed.status;
    EXPECT_EQ(committed.directory, directory_.Path(absl::StrCat("step-", 10 * id)));
  }
  EXPECT_THAT(Saved(), ElementsAre(20, 30));
}

TEST_F(CheckpointSaverTest, JustSavedCheckpoint_IsKeptDespiteCheckpointsOfLaterSteps) {
  for (const int64_t id : {8, 9, 1}) {
    ASSERT_TRUE(Open(id).ok());
    ASSERT_TRUE(Write(id).ok());
    ASSERT_TRUE(Commit(id, Nothing).get().status.ok());
  }
  EXPECT_THAT(Saved(), ElementsAre(10, 90));
}

TEST_F(CheckpointSaverTest, BestCheckpoint_IsKeptAndLinkedUntilABetterOneIsSaved) {
  const auto save = [this](int64_t id) {
    ASSERT_TRUE(Open(id).ok());
    ASSERT_TRUE(Write(id).ok());
    const CheckpointSaver::Committed committed = Commit(id, Nothing).get();
    EXPECT_TRUE(committed.status.ok() && committed.pruned.ok()) << committed.pruned;
  };
  best_step_ = 10;
  for (int64_t id = 1; id <= 4; ++id) save(id);
  EXPECT_THAT(Saved(), ElementsAre(10, 30, 40));
  EXPECT_EQ(std::filesystem::read_symlink(directory_.Path("best")), "step-10");
  best_step_ = 50;
  save(5);
  EXPECT_THAT(Saved(), ElementsAre(40, 50));
  EXPECT_EQ(std::filesystem::read_symlink(directory_.Path("best")), "step-50");
  best_step_ = 40;
  save(6);
  EXPECT_EQ(std::filesystem::read_symlink(directory_.Path("best")), "step-40") << "whatever it was before";
  best_step_ = 0;
  save(7);
  EXPECT_FALSE(std::filesystem::is_symlink(directory_.Path("best")));
}

TEST_F(CheckpointSaverTest, Commit_ReturnsBeforeTheDiskHasFinished) {
  ASSERT_TRUE(Open(1).ok());
  ASSERT_TRUE(Write(1).ok());
  std::promise<void> disk;
  auto committed = Commit(1, [&disk] {
    disk.get_future().wait();
    return absl::OkStatus();
  });
  EXPECT_THAT(Saved(), IsEmpty());
  disk.set_value();
  EXPECT_TRUE(committed.get().status.ok());
  EXPECT_THAT(Saved(), ElementsAre(10));
}

TEST_F(CheckpointSaverTest, CommitFailsIfTheJournalCannotBeSynced) {
  ASSERT_TRUE(Open(1).ok());
  ASSERT_TRUE(Write(1).ok());
  const auto full = [] { return absl::ResourceExhaustedError("no room for the journal"); };
  EXPECT_TRUE(absl::IsResourceExhausted(Commit(1, full).get().status));
  EXPECT_THAT(Saved(), IsEmpty());
}

TEST_F(CheckpointSaverTest, WriteToASaveThatIsNotOpenIsRefused) {
  EXPECT_THAT(std::string(Write(1).message()), HasSubstr("save 1 is not open"));
  ASSERT_TRUE(Open(1).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Write(2)));
  saver_.Abandon();
  ASSERT_TRUE(Open(2).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Write(1)));
  EXPECT_TRUE(Write(2).ok());
}

}  // namespace
}  // namespace tethys
