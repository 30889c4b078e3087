#include "deploy/process/subprocess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

// Starts shell scripts as children.
class SubprocessTest : public ::testing::Test {
 protected:
  Subprocess Start(const std::string& script, const std::string& input = "") {
    auto child = Subprocess::Spawn({.program = "/bin/sh",
                                    .arguments = {"-c", script},
                                    .input = input,
                                    .log_path = log_,
                                    .read_output = true});
    TETHYS_CHECK(child.ok(), child.status().message());
    return *std::move(child);
  }
  // All output of the child until it closes its standard output.
  static std::string ReadAll(const Subprocess& child) {
    std::string all;
    while (true) {
      pollfd poller = {child.output(), POLLIN, 0};
      poll(&poller, 1, -1);
      char buffer[256];
      const ssize_t got = read(child.output(), buffer, sizeof(buffer));
      if (got <= 0) return all;
      all.append(buffer, got);
    }
  }
  static ProcessExit Wait(Subprocess& child) {
    siginfo_t info;
    waitid(P_PID, child.pid(), &info, WEXITED | WNOWAIT);
    return *child.Poll();
  }

  const testing::TempDirectory directory_;
  const std::string log_ = directory_.Path("log");
};

TEST_F(SubprocessTest, ChildReadsItsInput) {
  EXPECT_EQ(ReadAll(Start("read line; echo \"got $line\"", "secret\n")), "got secret\n");
}

TEST_F(SubprocessTest, ChildHasOnlyTheThreeStandardDescriptors) {
  // A descriptor without close-on-exec, such as other code may open.
  FileDescriptor leaky(open("/dev/null", O_RDONLY));
  Subprocess other = Start("read forever");
  // The shell opens the directory to expand the pattern, so the expansion includes the descriptor of the
  // directory, too. `test` leaves this descriptor out, because the shell has closed it by then.
  const std::string listing = ReadAll(Start("cd /proc/$$/fd; for i in *; do test -e $i && echo $i; done"));
  EXPECT_EQ(listing, "0\n1\n2\n");
}

TEST_F(SubprocessTest, StandardErrorIsAppendedToTheLog) {
  ReadAll(Start("echo first >&2"));
  ReadAll(Start("echo second >&2"));
  EXPECT_EQ(*ReadFile(log_), "first\nsecond\n");
}

TEST_F(SubprocessTest, OutputGoesToLogUnlessRead) {
  auto child = Subprocess::Spawn({.program = "/bin/sh", .arguments = {"-c", "echo out"}, .log_path = log_});
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->output(), -1);
  Wait(*child);
  EXPECT_EQ(*ReadFile(log_), "out\n");
}

TEST_F(SubprocessTest, ReportsHowChildEnded) {
  Subprocess well = Start("exit 0"), badly = Start("exit 3"), killed = Start("kill -9 $$");
  EXPECT_TRUE(Wait(well).clean());
  EXPECT_EQ(ExitText(Wait(badly)), "exited with status 3");
  EXPECT_EQ(ExitText(Wait(killed)), "was killed by signal 9 (Killed)");
}

TEST_F(SubprocessTest, KillByAnotherProcessIsExplainedAndKillByThisObjectIsNot) {
  Subprocess killed = Start("kill -9 $$"), ours = Start("read forever"), ended = Start("kill -15 $$");
  EXPECT_THAT(Wait(killed).reason, ::testing::HasSubstr("memory"));
  ours.Signal(SIGKILL);
  EXPECT_EQ(Wait(ours).reason, "");
  EXPECT_EQ(Wait(ended).reason, "");
}

TEST(KillReasonTest, SaysWhetherAndWhereMemoryRanOut) {
  EXPECT_THAT(KillReason({.group = 1, .machine = 4}, {.group = 2, .machine = 5}, 300 << 20),
              ::testing::HasSubstr("memory ran out in the control group, whose limit is 300 MiB"));
  EXPECT_THAT(KillReason({.group = 1, .machine = 4}, {.group = 1, .machine = 5}, -1),
              ::testing::HasSubstr("memory ran out on this machine"));
  EXPECT_THAT(KillReason({.group = 1, .machine = 4}, {.group = 1, .machine = 4}, -1),
              ::testing::HasSubstr("no lack of memory"));
  EXPECT_THAT(KillReason({}, {}, -1), ::testing::HasSubstr("the usual cause is a lack of memory"));
}

TEST_F(SubprocessTest, ARunningChildHasNoExit) {
  Subprocess child = Start("read forever");
  EXPECT_FALSE(child.Poll().has_value());
}

TEST_F(SubprocessTest, StoppedChildReceivesSignals) {
  Subprocess child = Start("kill -STOP $$");
  siginfo_t info;
  waitid(P_PID, child.pid(), &info, WSTOPPED | WNOWAIT);
  child.Signal(SIGTERM);
  EXPECT_EQ(Wait(child).signal, SIGTERM);
}

TEST_F(SubprocessTest, ChildIsInASeparateProcessGroup) {
  Subprocess child = Start("read forever");
  EXPECT_EQ(getpgid(child.pid()), child.pid());
}

TEST_F(SubprocessTest, DestructorLeavesNoProcess) {
  pid_t pid;
  {
    Subprocess child = Start("trap '' TERM; echo ready; read forever");
    pid = child.pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(SubprocessTest, RefusesMissingProgram) {
  const auto child = Subprocess::Spawn({.program = "/no/such/program", .log_path = log_});
  EXPECT_EQ(child.status(),
            absl::NotFoundError("cannot execute /no/such/program: No such file or directory"));
}

TEST_F(SubprocessTest, ChildStartsWithDefaultSignals) {
  sigset_t blocked, before;
  sigfillset(&blocked);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  Subprocess child = Start("read forever");
  sigprocmask(SIG_SETMASK, &before, nullptr);
  child.Signal(SIGTERM);
  EXPECT_EQ(Wait(child).signal, SIGTERM);
}

}  // namespace
}  // namespace tethys
