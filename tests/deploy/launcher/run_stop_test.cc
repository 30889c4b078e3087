#include "deploy/launcher/run_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "deploy/launcher/lock_holder.h"
#include "deploy/launcher/run_directory.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunStopTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(RunDirectory::Create(path_)->WriteJob(proto::Job()).ok()); }
  ~RunStopTest() override {
    if (child_ > 0) kill(child_, SIGKILL);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }

  // Writes the lock file in place, as a launcher does.
  void WriteLock(const LauncherName& name) { std::ofstream(path_ + "/.lock") << LauncherLine(name); }

  // Starts a process that acts as the run's launcher. SIGTERM ends the process; with `ignore` only SIGKILL
  // does.
  void StartLauncher(bool ignore) {
    StartProcess([this, ignore] {
      signal(SIGTERM, ignore ? SIG_IGN : SIG_DFL);
      static const auto directory = RunDirectory::Open(path_);
      static const NamedLauncher named(*directory);
    });
  }

  // Starts a process that acts as the run's launcher without writing a launcher's name into the lock file.
  // The process ends with status 7 on SIGTERM.
  void StartUnnamedLauncher() {
    StartProcess([this] {
      signal(SIGTERM, [](int) { _exit(7); });
      static const auto directory = RunDirectory::Open(path_);
    });
  }

  // Starts a process that calls `prepare` and then waits for signals.
  void StartProcess(const std::function<void()>& prepare) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) {
      prepare();
      if (write(ready[1], "x", 1) != 1) _exit(3);
      while (true) pause();
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }

  // Stops the launcher, which is the started process; returns the exit status of the process.
  int Stop(const RunningLauncher& launcher) {
    EXPECT_TRUE(launcher.AskToStop().ok());
    EXPECT_TRUE(launcher.WaitForEnd(3600 * kSecond).value());
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    child_ = 0;
    return status;
  }

  absl::Status FindError() {
    const absl::Status status = RunningLauncher::Find(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return status;
  }

  const testing::TempDirectory directory_;
  const std::string path_ = directory_.Path("run");
  pid_t child_ = 0;
};

TEST_F(RunStopTest, LauncherIsSentSigtermAndItsEndIsAwaited) {
  StartLauncher(/*ignore=*/false);
  const auto launcher = RunningLauncher::Find(path_);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->name().process, child_);
  const int status = Stop(*launcher);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_TRUE(launcher->AskToStop().ok()) << "it has ended, as it was asked to";
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("is not running"));
}

TEST_F(RunStopTest, WaitEndsAtItsTimeLimit) {
  StartLauncher(/*ignore=*/true);
  const auto launcher = RunningLauncher::Find(path_);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  ASSERT_TRUE(launcher->AskToStop().ok());
  EXPECT_FALSE(launcher->WaitForEnd(0).value());
}

TEST_F(RunStopTest, ProcessWithAReusedNumberIsNotTheLauncher) {
  const auto held = RunDirectory::Open(path_);
  LauncherName other = OwnLauncherName().value();
  --other.start;
  WriteLock(other);
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("is not visible from here"));
}

TEST_F(RunStopTest, ErrorNamesTheOtherHostOnWhichTheLauncherRuns) {
  LauncherName other = OwnLauncherName().value();
  other.boot_id = "another-boot";
  other.host = "slave7";
  {
    const auto held = RunDirectory::Open(path_);
    WriteLock(other);
    EXPECT_THAT(std::string(FindError().message()), HasSubstr("stop the run on slave7"));
  }
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("slave7 was the last launcher of the run"))
      << "the lock is not seen";
}

TEST_F(RunStopTest, LockedDirectoryWithoutALauncherIsRefused) {
  const auto held = RunDirectory::Open(path_);
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("try again"));
}

TEST_F(RunStopTest, LauncherThatWroteNoNameIsFoundByItsLock) {
  StartUnnamedLauncher();
  const auto launcher = RunningLauncher::Find(path_);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->name().process, child_);
  const int status = Stop(*launcher);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(RunStopTest, LauncherWithAnUnreadableNameIsFoundByItsLock) {
  StartUnnamedLauncher();
  std::ofstream(path_ + "/.lock") << "launcher/2 pid=17\n";
  const auto launcher = RunningLauncher::Find(path_);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->name().process, child_);
}

TEST_F(RunStopTest, DamagedLockFileIsDataLossAndMissingRunIsNotFound) {
  const auto held = RunDirectory::Open(path_);
  std::ofstream(path_ + "/.lock") << "launcher 17";
  const absl::Status damaged = RunningLauncher::Find(path_).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("/run/.lock"));
  EXPECT_EQ(RunningLauncher::Find(directory_.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RunStopTest, LaunchersNameIsRemovedWhenTheRunEnds) {
  const auto held = RunDirectory::Open(path_);
  {
    const NamedLauncher named(*held);
    EXPECT_EQ(RunDirectory::Launcher(path_).value(), OwnLauncherName().value());
  }
  EXPECT_FALSE(RunDirectory::Launcher(path_).value().has_value());
}

TEST_F(RunStopTest, NameOfAKilledLauncherIsRemovedByTheNextLauncher) {
  WriteLock(OwnLauncherName().value());
  const auto held = RunDirectory::Open(path_);
  EXPECT_FALSE(RunDirectory::Launcher(path_).value().has_value());
}

TEST(LockHolderTest, OnlyProcessesWithAnExclusiveFlockOnTheFileCountAsLockHolders) {
  constexpr char kLocks[] =
      "1: FLOCK  ADVISORY  WRITE 17 fe:00:42 0 EOF\n"
      "1: -> FLOCK  ADVISORY  WRITE 18 fe:00:42 0 EOF\n"
      "2: FLOCK  ADVISORY  READ  19 fe:00:42 0 EOF\n"
      "3: POSIX  ADVISORY  WRITE 20 fe:00:42 0 EOF\n"
      "4: FLOCK  ADVISORY  WRITE 21 fe:00:43 0 EOF\n"
      "5: FLOCK  ADVISORY  WRITE 22 00:2b:42 0 EOF\n"
      "6: FLOCK  ADVISORY  WRITE -1 fe:00:42 0 EOF\n"
      "7: FLOCK  ADVISORY  WRITE x fe:00:42\n8: FLOCK\n\n";
  EXPECT_THAT(ExclusiveLockers(kLocks, 42), ElementsAre(17, 22));
}

TEST(LockHolderTest, LockHolderMustHaveTheFileOpen) {
  const testing::TempDirectory directory;
  const std::string run = directory.Path("run");
  {
    const auto held = RunDirectory::Create(run);
    EXPECT_EQ(LockHolder(RunDirectory::LockFile(run)), getpid());
  }
  EXPECT_FALSE(LockHolder(RunDirectory::LockFile(run)).has_value());
  EXPECT_FALSE(LockHolder(directory.Path("missing")).has_value());
}

TEST(LockHolderTest, ProcessThatCatchesOrBlocksSigtermIsNotKilledAtOnce) {
  EXPECT_TRUE(TakesTermination("Name:\ttethys\nSigBlk:\t0000000000004000\nSigCgt:\t0000000000000000\n"));
  EXPECT_TRUE(TakesTermination("SigBlk:\t0000000000000000\nSigCgt:\t0000000180004002\n"));
  EXPECT_FALSE(TakesTermination("SigBlk:\t0000000000000000\nSigIgn:\t0000000000004000\nSigCgt:\tx\n"));
  EXPECT_FALSE(TakesTermination(""));
}

TEST(LauncherNameTest, WrittenLineIsReadBackAndOtherLinesAreRefused) {
  const LauncherName name{.process = 17, .start = 123456789012, .boot_id = "b-1", .host = "vm.lan"};
  EXPECT_EQ(ParseLauncherLine(LauncherLine(name)).value(), name);
  for (const char* line : {"", "\n", "launcher 17 1 b vm", "launcher 17 1 b\n", "launcher 0 1 b vm\n",
                           "launcher -1 1 b vm\n", "launcher 99999999999 1 b vm\n", "launcher 17 -1 b vm\n",
                           "launcher 17 1 b v\x1bm\n", "launcher 17 1 b vm x\n", "other 17 1 b vm\n"}) {
    EXPECT_EQ(ParseLauncherLine(line).status().code(), absl::StatusCode::kDataLoss) << line;
  }
}

}  // namespace
}  // namespace tethys
