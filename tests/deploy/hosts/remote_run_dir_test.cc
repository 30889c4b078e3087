#include "deploy/hosts/remote_run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <vector>

#include "deploy/process/signal_source.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Another folder of this machine takes the place of the remote machine, and a shell takes the place of ssh.
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
  // Fetches the results; no interrupt is expected.
  absl::Status FetchUndisturbed() const {
    return FetchRunDir(there_, here_, [](const std::string&) {});
  }
  std::string Chief() const { return ChiefRunDir(there_, here_); }

  std::string root_;
  std::string here_;
  Place there_;
};

TEST_F(RemoteRunDirTest, LocalChiefUsesRunDirItself) {
  EXPECT_EQ(ChiefRunDir({}, here_), here_);
  EXPECT_TRUE(SendRunDir({}, here_).ok());
  EXPECT_TRUE(FetchRunDir({}, here_, nullptr).ok());
}

TEST_F(RemoteRunDirTest, EachRunHasOwnRemoteDirectory) {
  EXPECT_THAT(Chief(), StartsWith(root_ + "/there/runs/it's a run-"));
  EXPECT_EQ(Chief(), ChiefRunDir(there_, here_));
  EXPECT_NE(Chief(), ChiefRunDir(there_, here_ + "2"));
}

TEST_F(RemoteRunDirTest, SendsTheJobAndFetchesTheResults) {
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  EXPECT_EQ(*ReadFile(Chief() + "/job.textproto"), "job");
  Write(Chief() + "/checkpoints/step-7", "manifest", "saved");
  const absl::Status fetched = FetchUndisturbed();
  ASSERT_TRUE(fetched.ok()) << fetched;
  EXPECT_EQ(*ReadFile(here_ + "/checkpoints/step-7/manifest"), "saved");
  EXPECT_FALSE(FileExists(Chief()));
}

TEST_F(RemoteRunDirTest, GreetingOfTheShellIsNotMixedIntoFetchedFiles) {
  there_.ssh = {"sh", "-c", "printf 'Welcome to '; head -c 100000 /dev/zero; eval \"$0\""};
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  Write(Chief(), "summary.json", "{}");
  const absl::Status fetched = FetchUndisturbed();
  ASSERT_TRUE(fetched.ok()) << fetched;
  EXPECT_EQ(*ReadFile(here_ + "/summary.json"), "{}");
}

TEST_F(RemoteRunDirTest, LogsAndLockAreNotSent) {
  Write(here_, ".lock", "");
  Write(here_ + "/log", "chief-0.log", "here");
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  EXPECT_FALSE(FileExists(Chief() + "/.lock"));
  EXPECT_FALSE(FileExists(Chief() + "/log"));
  EXPECT_FALSE(FileExists(here_ + "/.transfer.tar"));
}

TEST_F(RemoteRunDirTest, FetchWithoutARemoteDirectorySucceedsAndKeepsLocalFiles) {
  EXPECT_TRUE(FetchUndisturbed().ok());
  EXPECT_EQ(*ReadFile(here_ + "/job.textproto"), "job");
}

TEST_F(RemoteRunDirTest, FailedFetchNamesHostAndPath) {
  there_.ssh = {"sh", "-c", "echo 'no route' >&2; exit 255"};
  EXPECT_THAT(std::string(FetchUndisturbed().message()),
              AllOf(HasSubstr("cannot fetch the results from slave1:" + Chief()), HasSubstr("no route")));
}

TEST_F(RemoteRunDirTest, UnfetchedAtReturnsTheRemotePathUntilResultsAreFetched) {
  EXPECT_EQ(UnfetchedAt(here_), "");
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  EXPECT_EQ(UnfetchedAt(here_), "slave1:" + Chief());
  ASSERT_TRUE(FetchUndisturbed().ok());
  EXPECT_EQ(UnfetchedAt(here_), "");
}

TEST_F(RemoteRunDirTest, RemoteDirectoryWithUnfetchedResultsIsNotOverwritten) {
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  Write(Chief() + "/checkpoints/step-7", "manifest", "saved");
  for (const absl::Status& refused : {CheckNothingLeft(there_, here_), SendRunDir(there_, here_)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("slave1:" + Chief()), HasSubstr("never fetched"), HasSubstr("--run_dir")));
  }
  EXPECT_EQ(*ReadFile(Chief() + "/checkpoints/step-7/manifest"), "saved");
}

TEST_F(RemoteRunDirTest, RemoteDirectoryOfAJobThatNeverStartedMayBeOverwritten) {
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  EXPECT_TRUE(CheckNothingLeft(there_, here_).ok());
  EXPECT_TRUE(SendRunDir(there_, here_).ok());
}

TEST_F(RemoteRunDirTest, RemotePathIsSameBeforeAndAfterRunDirIsMade) {
  const std::string before = ChiefRunDir(there_, root_ + "/later/");
  Write(root_ + "/later", "job.textproto", "job");
  EXPECT_EQ(ChiefRunDir(there_, root_ + "/later"), before);
}

TEST_F(RemoteRunDirTest, IncompleteTransferLeavesNoDirectory) {
  Write(here_ + "/checkpoints/step-7", "manifest", "good");
  const std::vector<std::string> ssh = there_.ssh;
  there_.ssh = {"sh", "-c", "(eval \"$0\"); exit 255"};  // The connection breaks at the end.
  EXPECT_FALSE(SendRunDir(there_, here_).ok());
  EXPECT_FALSE(FileExists(Chief()));
  EXPECT_EQ(UnfetchedAt(here_), "");
}

TEST_F(RemoteRunDirTest, BrokenFetchChangesNoLocalFile) {
  Write(here_, "journal", "old");
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  Write(Chief(), "journal", "new");
  there_.ssh = {"sh", "-c", "(eval \"$0\"); exit 255"};
  EXPECT_FALSE(FetchUndisturbed().ok());
  EXPECT_EQ(*ReadFile(here_ + "/journal"), "old");
  EXPECT_EQ(*ReadFile(Chief() + "/journal"), "new");
  EXPECT_FALSE(FileExists(here_ + "/.transfer.tar"));
}

TEST_F(RemoteRunDirTest, CheckpointRemovedRemotelyIsRemovedHere) {
  Write(here_ + "/checkpoints/step-7", "manifest", "old");
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  ASSERT_TRUE(RemoveRecursively(Chief() + "/checkpoints/step-7").ok());
  Write(Chief() + "/checkpoints/step-9", "manifest", "new");
  ASSERT_TRUE(FetchUndisturbed().ok());
  EXPECT_FALSE(FileExists(here_ + "/checkpoints/step-7"));
  EXPECT_TRUE(FileExists(here_ + "/checkpoints/step-9"));
}

// Interrupts arrive while the results are fetched.
class InterruptedFetchTest : public RemoteRunDirTest {
 protected:
  void SetUp() override {
    RemoteRunDirTest::SetUp();
    signal(SIGINT, SIG_DFL);  // SIGINT may be ignored if the test runs as a background job.
    ASSERT_TRUE(SendRunDir(there_, here_).ok());
    Write(Chief(), "journal", "new");
  }
  // Makes the first `times` commands for the remote machine send an interrupt to this process and then hang.
  void InterruptCommands(int times) {
    const std::string mark = "\"" + root_ + "/interrupt-$i\"";
    there_.ssh = {
        "sh", "-c",
        absl::StrCat("i=1; while test $i -le ", times, "; do if mkdir ", mark,
                     " 2> /dev/null; then kill -INT $PPID; exec sleep 3600; fi; i=$((i + 1)); done; "
                     "eval \"$0\"")};
  }
  absl::Status Fetch() {
    return FetchRunDir(there_, here_, [this](const std::string& line) { notes_.push_back(line); });
  }

  InterruptsHeld held_;
  std::vector<std::string> notes_;
};

TEST_F(InterruptedFetchTest, FirstInterruptDoesNotEndTheFetch) {
  InterruptCommands(1);
  const absl::Status fetched = Fetch();
  EXPECT_TRUE(fetched.ok()) << fetched;
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("still fetching its results from slave1:" + Chief()),
                                        HasSubstr("interrupt once more"))));
  EXPECT_EQ(*ReadFile(here_ + "/journal"), "new");
  EXPECT_FALSE(FileExists(Chief()));
  EXPECT_EQ(TakeInterrupt(), SIGINT) << "a sequence of runs must see it";
}

TEST_F(InterruptedFetchTest, SecondInterruptLeavesTheResultsOnTheHost) {
  InterruptCommands(2);
  EXPECT_THAT(std::string(Fetch().message()),
              AllOf(HasSubstr("cannot fetch the results from slave1:" + Chief()), HasSubstr("interrupted")));
  EXPECT_FALSE(FileExists(here_ + "/journal"));
  EXPECT_EQ(*ReadFile(Chief() + "/journal"), "new");
  EXPECT_EQ(UnfetchedAt(here_), "slave1:" + Chief());
  held_.ReleaseAndDiscard();
}

// Tests FetchLeftRunDir, which finds ssh on PATH: the first ssh there is a script of the test.
class LeftRunDirTest : public RemoteRunDirTest {
 protected:
  void SetUp() override {
    RemoteRunDirTest::SetUp();
    WriteSsh("for last; do :; done; eval \"$last\"");
    old_path_ = getenv("PATH");
    setenv("PATH", absl::StrCat(root_, "/bin:", old_path_).c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", old_path_.c_str(), 1);
    RemoteRunDirTest::TearDown();
  }
  void WriteSsh(const std::string& script) {
    Write(root_ + "/bin", "ssh", absl::StrCat("#!/bin/sh\n", script, "\n"));
    ASSERT_EQ(chmod((root_ + "/bin/ssh").c_str(), 0755), 0);
  }
  absl::Status FetchLeft() {
    return FetchLeftRunDir("", here_, [this](const std::string& line) { notes_.push_back(line); });
  }

  std::string old_path_;
  std::vector<std::string> notes_;
};

TEST_F(LeftRunDirTest, UnfetchedResultsOfAnEarlierRemoteChiefAreFetchedAndRemovedThere) {
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  Write(Chief() + "/checkpoints/step-7", "manifest", "saved");
  ASSERT_TRUE(FetchLeft().ok());
  EXPECT_EQ(*ReadFile(here_ + "/checkpoints/step-7/manifest"), "saved");
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("slave1:" + Chief())));
  EXPECT_FALSE(FileExists(Chief()));
}

TEST_F(LeftRunDirTest, RunWithoutARecordOfARemoteChiefFetchesNothing) {
  EXPECT_TRUE(FetchLeft().ok());
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(LeftRunDirTest, UnreachableHostIsNamedWithRemedies) {
  ASSERT_TRUE(SendRunDir(there_, here_).ok());
  WriteSsh("echo 'no route' >&2; exit 255");
  EXPECT_THAT(
      std::string(FetchLeft().message()),
      AllOf(HasSubstr("slave1:" + Chief() + ": ssh: no route (try: ssh -o BatchMode=yes slave1 true)"),
            HasSubstr("remove " + here_ + "/.remote_run.textproto")));
  EXPECT_EQ(UnfetchedAt(here_), "slave1:" + Chief());
}

TEST_F(LeftRunDirTest, UnusableRecordIsRefused) {
  for (const char* text : {"", "host: \"a\"", "path: \"/x\"", "host: 1", "\xff"}) {
    Write(here_, ".remote_run.textproto", text);
    EXPECT_THAT(std::string(FetchLeft().message()), HasSubstr(".remote_run.textproto does not say")) << text;
  }
}

}  // namespace
}  // namespace tethys
