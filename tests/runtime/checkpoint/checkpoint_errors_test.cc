// Makes each file system call of a save fail, one call in each save. If the save fails, its error names the
// file and the reason; the last good checkpoint stays, and the next save succeeds.
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "tests/runtime/checkpoint/checkpoint_fixture.h"
#include "tests/testing/failing_calls.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using testing::FailingCall;
using testing::FailingCalls;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kShortWrite;

class CheckpointErrorsTest : public CheckpointTest {
 protected:
  CheckpointErrorsTest() : CheckpointTest(QuickDirectory()) {}

  struct Outcome {
    absl::Status status;
    int failed_calls;
  };

  // Creates, writes and commits a checkpoint while calls fail as `rule` says.
  Outcome SaveUnder(const FailingCall& rule, int64_t step, float salt) {
    FailingCalls calls(rule);
    const absl::Status status = [&]() -> absl::Status {
      TETHYS_ASSIGN_OR_RETURN(const auto writer,
                              CheckpointWriter::Create(root_, step, model_, {"momentum"}, "test"));
      TETHYS_RETURN_IF_ERROR(writer->Write(0, 0, Values(0, salt)));
      TETHYS_RETURN_IF_ERROR(writer->Write(1, 0, Values(1, salt)));
      return writer->Commit({});
    }();
    return {status, calls.failed()};
  }

  // For each `rule.first` from 0 on: saves step 1 with salt 0, saves `step` with salt 1 while calls fail as
  // `rule` says, and then saves `step` again without failures. If `tidies`, removes stale checkpoints before
  // the last save, as a resumed run does.
  void TryEveryCall(FailingCall rule, int64_t step, bool tidies) {
    for (rule.first = 0;; ++rule.first) {
      SCOPED_TRACE(absl::StrCat("from call ", rule.first, " on: ", std::strerror(rule.errors.front())));
      ASSERT_TRUE(RemoveRecursively(root_).ok());
      ASSERT_TRUE(Save(1, 0).ok());
      const Outcome outcome = SaveUnder(rule, step, 1);
      if (outcome.failed_calls == 0) break;
      const std::string message(outcome.status.message());
      const bool in_place = outcome.status.ok() || absl::StrContains(message, "may not survive a power cut");
      EXPECT_EQ(NewestSalt(), in_place ? 1 : 0) << message;
      if (!outcome.status.ok()) {
        EXPECT_THAT(message, AllOf(HasSubstr(root_), HasSubstr(std::strerror(rule.errors.front()))));
      }
      if (tidies) {
        ASSERT_TRUE(RemoveStaleCheckpoints(root_).ok());
      }
      EXPECT_TRUE(Save(step, 2).ok());
      EXPECT_EQ(NewestSalt(), 2);
      EXPECT_EQ(Files().size(), step) << "the failed save leaves no files";
    }
    EXPECT_GT(rule.first, 15) << "calls that a save makes";
  }
};

TEST_F(CheckpointErrorsTest, AnyErrorKeepsTheLastCheckpointAndTheNextSaveSucceeds) {
  TryEveryCall({.errors = {EIO}}, 2, false);
  TryEveryCall({.errors = {ENOSPC}}, 2, false);
}

TEST_F(CheckpointErrorsTest, AnyErrorWhileResavingAStepKeepsTheOldOrNewCheckpoint) {
  TryEveryCall({.errors = {EIO}}, 1, false);
}

TEST_F(CheckpointErrorsTest, PermanentlyFailingDiskKeepsTheLastCheckpoint) {
  TryEveryCall({.errors = {EIO}, .for_good = true}, 2, true);
  TryEveryCall({.errors = {EIO}, .for_good = true}, 1, true);
}

TEST_F(CheckpointErrorsTest, FailedSyncNamesTheFile) {
  const Outcome outcome = SaveUnder({.name = "fdatasync", .errors = {EIO}}, 1, 0);
  EXPECT_EQ(outcome.status.message(),
            absl::StrCat("cannot sync ", Path(1), ".tmp/model.safetensors: Input/output error"));
}

TEST_F(CheckpointErrorsTest, DirectoryIsSyncedAfterTheRename) {
  ASSERT_TRUE(Save(1, 0).ok());
  // The first call of fsync syncs root_, which then holds step-2.tmp; the second syncs step-2.tmp, which
  // then holds the manifest.
  const Outcome outcome = SaveUnder({.name = "fsync", .first = 2, .errors = {EIO}}, 2, 1);
  EXPECT_EQ(outcome.status.message(),
            absl::StrCat(Path(2), " is written but may not survive a power cut: cannot sync directory ",
                         root_, ": Input/output error"));
}

TEST_F(CheckpointErrorsTest, FailedSyncIsNotRetried) {
  const auto writer = Begin(1);
  ASSERT_TRUE(writer->Write(0, 0, Values(0)).ok());
  ASSERT_TRUE(writer->Write(1, 0, Values(1)).ok());
  FailingCalls calls({.name = "fdatasync", .errors = {EIO}});
  EXPECT_FALSE(writer->Commit({}).ok());
  EXPECT_THAT(std::string(writer->Commit({}).message()), HasSubstr("save the checkpoint anew"));
  EXPECT_THAT(*ListCheckpoints(root_), IsEmpty());
}

TEST_F(CheckpointErrorsTest, ShortWritesAreContinued) {
  for (const char* call : {"write", "pwrite"}) {
    const Outcome outcome = SaveUnder({.name = call, .errors = {kShortWrite}, .for_good = true}, 1, 1);
    EXPECT_GT(outcome.failed_calls, 5) << call;
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(NewestSalt(), 1);
  }
}

TEST_F(CheckpointErrorsTest, InterruptedCallsAreRetried) {
  for (const char* call : {"write", "pwrite", "posix_fallocate"}) {
    const Outcome outcome = SaveUnder({.name = call, .errors = {EINTR, EINTR, EINTR}}, 1, 1);
    EXPECT_EQ(outcome.failed_calls, 3) << call;
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(NewestSalt(), 1);
  }
}

TEST_F(CheckpointErrorsTest, FailedPruningKeepsTheNewestCheckpoint) {
  for (int call = 0;; ++call) {
    ASSERT_TRUE(RemoveRecursively(root_).ok());
    ASSERT_TRUE(Save(1, 0).ok());
    ASSERT_TRUE(Save(2, 1).ok());
    {
      FailingCalls calls({.first = call, .errors = {EIO}});
      const absl::Status status = PruneCheckpoints(root_, 1, 2);
      if (calls.failed() == 0) break;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(root_), HasSubstr("Input/output error")));
    }
    EXPECT_EQ(NewestSalt(), 1);
    EXPECT_TRUE(PruneCheckpoints(root_, 1, 2).ok());
  }
}

}  // namespace
}  // namespace tethys
