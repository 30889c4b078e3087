#include "deploy/launcher/run_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "deploy/launcher/run_directory.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

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

  // Starts a process that makes the run until SIGTERM ends it; with `ignore` nothing but SIGKILL ends it.
  void StartLauncher(bool ignore) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) {
      signal(SIGTERM, ignore ? SIG_IGN : SIG_DFL);
      const auto directory = RunDirectory::Open(path_);
      const NamedLauncher named(*directory);
      if (write(ready[1], "x", 1) != 1) _exit(3);
      while (true) pause();
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
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

TEST_F(RunStopTest, LauncherIsAskedToEndAndAwaited) {
  StartLauncher(/*ignore=*/false);
  const auto launcher = RunningLauncher::Find(path_);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->name().process, child_);
  ASSERT_TRUE(launcher->AskToStop().ok());
  EXPECT_TRUE(launcher->WaitForEnd(3600 * kSecond).value());
  int status = 0;
  ASSERT_EQ(waitpid(child_, &status, 0), child_);
  child_ = 0;
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_TRUE(launcher->AskToStop().ok()) << "it has ended, as it was asked to";
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("is not running"));
}

TEST_F(RunStopTest, WaitIsOverAtItsLimit) {
  StartLauncher(/*ignore=*/true);
  const auto launcher = RunningLauncher::Find(path_);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  ASSERT_TRUE(launcher->AskToStop().ok());
  EXPECT_FALSE(launcher->WaitForEnd(0).value());
}

TEST_F(RunStopTest, ProcessThatGotTheNumberLaterIsNoLauncher) {
  const auto held = RunDirectory::Open(path_);
  LauncherName other = OwnLauncherName().value();
  --other.start;
  WriteLock(other);
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("cannot be seen from here"));
}

TEST_F(RunStopTest, LauncherOfAnotherHostIsNamed) {
  LauncherName other = OwnLauncherName().value();
  other.boot_id = "another-boot";
  other.host = "slave7";
  {
    const auto held = RunDirectory::Open(path_);
    WriteLock(other);
    EXPECT_THAT(std::string(FindError().message()), HasSubstr("stop it on slave7"));
  }
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("slave7 made it last")) << "the lock is not seen";
}

TEST_F(RunStopTest, DirectoryThatIsHeldWithoutALauncherIsRefused) {
  const auto held = RunDirectory::Open(path_);
  EXPECT_THAT(std::string(FindError().message()), HasSubstr("try again"));
}

TEST_F(RunStopTest, DamagedLockFileAndMissingRunAreNamed) {
  const auto held = RunDirectory::Open(path_);
  std::ofstream(path_ + "/.lock") << "launcher 17";
  const absl::Status damaged = RunningLauncher::Find(path_).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("/run/.lock"));
  EXPECT_EQ(RunningLauncher::Find(directory_.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RunStopTest, NameIsRemovedWhenTheRunEnds) {
  const auto held = RunDirectory::Open(path_);
  {
    const NamedLauncher named(*held);
    EXPECT_EQ(RunDirectory::Launcher(path_).value(), OwnLauncherName().value());
  }
  EXPECT_FALSE(RunDirectory::Launcher(path_).value().has_value());
}

TEST_F(RunStopTest, NameOfAKilledLauncherIsRemovedByTheNext) {
  WriteLock(OwnLauncherName().value());
  const auto held = RunDirectory::Open(path_);
  EXPECT_FALSE(RunDirectory::Launcher(path_).value().has_value());
}

TEST(LauncherNameTest, LineIsReadBackAndOthersAreRefused) {
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
