#include "deploy/launcher/launcher_heart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deploy/launcher/agent_frames.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

class LauncherHeartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
    fcntl(write_.get(), F_SETFL, O_NONBLOCK);
  }
  // Waits for the next heartbeat and returns its bytes.
  std::string NextBeat() {
    std::string frame(kFrameHeaderBytes, '?');
    EXPECT_TRUE(ReadAll(frame)) << "the pipe has ended";
    return frame;
  }
  bool ReadAll(std::string& bytes) const {
    return read(read_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  }

  FileDescriptor read_, write_;
};

TEST_F(LauncherHeartTest, HeartBeatsWhileTheLauncherIsStopped) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    LauncherHeart heart;
    heart.Beat({write_.get()});
    raise(SIGSTOP);
    _exit(0);
  }
  write_.Close();
  int status = 0;
  ASSERT_EQ(waitpid(launcher, &status, WUNTRACED), launcher);
  ASSERT_TRUE(WIFSTOPPED(status));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NextBeat(), HeartbeatFrame());
  kill(launcher, SIGKILL);
  // The launcher and its heart must end and so close the pipe; otherwise the test waits until its time limit.
  std::string rest(kFrameHeaderBytes, '?');
  while (ReadAll(rest)) {
  }
  while (waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_F(LauncherHeartTest, StopEndsTheHeartProcessAndClosesItsPipes) {
  LauncherHeart heart;
  heart.Beat({write_.get()});
  EXPECT_EQ(NextBeat(), HeartbeatFrame());
  heart.Stop();
  write_.Close();
  std::string rest(kFrameHeaderBytes, '?');
  while (ReadAll(rest)) {
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(LauncherHeartTest, KilledHeartIsStartedAgain) {
  LauncherHeart heart;
  heart.Beat({write_.get()});
  const pid_t first = heart.pid();
  kill(first, SIGKILL);
  siginfo_t info;
  waitid(P_PID, first, &info, WEXITED | WNOWAIT);
  heart.Beat({write_.get()});
  EXPECT_NE(heart.pid(), first);
  EXPECT_EQ(kill(heart.pid(), 0), 0);
}

TEST_F(LauncherHeartTest, BeatWithTheSamePipesKeepsTheHeartProcess) {
  LauncherHeart heart;
  heart.Beat({write_.get()});
  const pid_t first = heart.pid();
  heart.Beat({write_.get()});
  EXPECT_EQ(heart.pid(), first);
}

}  // namespace
}  // namespace tethys
