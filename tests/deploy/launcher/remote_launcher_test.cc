// The launcher with processes on other machines.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/deploy/launcher/launcher_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// Workers and servers run as if on other machines: a local shell, which records its process id, takes the
// place of ssh.
class RemoteLauncherTest : public LauncherTest {
 protected:
  void SetUp() override {
    LauncherTest::SetUp();
    for (Place& place : options_.places.workers) PutOn("slave1", place);
    for (Place& place : options_.places.servers) PutOn("slave2", place);
  }
  void PutOn(const std::string& host, Place& place) {
    place.host = host;
    place.ssh = {"/bin/sh", "-c", absl::StrCat("echo $$ >> ", Connections(host), "; exec sh -c \"$1\""),
                 "ssh"};
  }
  std::string Connections(const std::string& host) const {
    return absl::StrCat(options_.run_dir, "/ssh-", host);
  }
  // The process id of the shell of each connection to `host`.
  std::vector<pid_t> SshTo(const std::string& host) const {
    std::vector<pid_t> found;
    std::ifstream file(Connections(host));
    for (pid_t pid; file >> pid;) found.push_back(pid);
    return found;
  }
  // The process id of the agent, whose parent is the shell that ssh would have started on `host`.
  pid_t AgentOn(const std::string& host) const {
    const pid_t shell = SshTo(host)[0];
    pid_t agent = -1;
    std::ifstream(absl::StrCat("/proc/", shell, "/task/", shell, "/children")) >> agent;
    return agent;
  }
  // Waits until the processes that broken connections left behind have ended by themselves.
  static void WaitForAdopted() {
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
};

TEST_F(RemoteLauncherTest, StartsAllProcessesOfAHostOverOneConnection) {
  EXPECT_TRUE(Run().status.ok());
  EXPECT_EQ(SshTo("slave1").size(), 1);
  EXPECT_EQ(SshTo("slave2").size(), 1);
  EXPECT_EQ(*ReadFile(options_.run_dir + "/log/worker-1.log"), "worker-1 says work\n");
}

TEST_F(RemoteLauncherTest, ReadsProgressOfRemoteChief) {
  PutOn("slave2", options_.places.chief);
  const RunResult result = Run();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.last_step, 7);
  EXPECT_THAT(recorder_.notes, Contains("no progress event"));
  EXPECT_EQ(SshTo("slave2").size(), 1);
}

TEST_F(RemoteLauncherTest, NamesRemoteProcessThatCrashed) {
  Behave("chief", "train");
  Behave("worker-1", "crash");
  EXPECT_THAT(Failure(), AllOf(HasSubstr("worker 1 on slave1 was killed by signal 6 (Aborted) at step "),
                               HasSubstr("worker-1 says crash")));
}

TEST_F(RemoteLauncherTest, NamesAConnectionThatBroke) {
  Behave("chief", "train");
  WhenTraining([&] { kill(SshTo("slave2")[0], SIGKILL); });
  EXPECT_THAT(
      Failure(),
      HasSubstr("ps 0 on slave2 lost its ssh connection (ssh was killed by signal 9 (Killed)) at step "));
  WaitForAdopted();
}

TEST_F(RemoteLauncherTest, ReportsErrorOfFailedSsh) {
  Behave("chief", "train");
  options_.places.servers[0].ssh = {"/bin/sh", "-c", "echo 'Connection refused' >&2; exit 255"};
  EXPECT_THAT(Failure(), HasSubstr("ps 0 on slave2 lost its ssh connection (Connection refused)"));
}

TEST_F(RemoteLauncherTest, SkipsShellOutputBeforeAgent) {
  options_.places.servers[0].ssh[2] =
      absl::StrCat("echo 'Welcome to slave2'; ", options_.places.servers[0].ssh[2]);
  EXPECT_TRUE(Run().status.ok());
}

TEST_F(RemoteLauncherTest, ReplacesWorkersOverANewConnection) {
  options_.survives_worker_loss = true;
  options_.max_restarts = 2;
  Behave("chief", "replace");
  WhenTraining([&] { kill(SshTo("slave1")[0], SIGKILL); });
  EXPECT_TRUE(Run().status.ok());
  EXPECT_EQ(SshTo("slave1").size(), 2);
  WaitForAdopted();
}

TEST_F(RemoteLauncherTest, StoppedWorkerGivenUpByChiefIsKilled) {
  options_.survives_worker_loss = true;
  options_.max_restarts = 1;
  Behave("chief", "give-up-later");
  WhenTraining([&] {
    kill(PidOf("worker-1"), SIGSTOP);
    std::ofstream(options_.run_dir + "/lost");
  });
  EXPECT_TRUE(Run().status.ok());
}

TEST_F(RemoteLauncherTest, InterruptEndsJobWithStoppedAgent) {
  options_.timeouts.set_shutdown(0.2);
  Behave("chief", "train");
  pid_t agent = -1;
  WhenTraining([&] {
    agent = AgentOn("slave1");
    kill(agent, SIGSTOP);
    raise(SIGINT);
  });
  EXPECT_EQ(Run().status.code(), absl::StatusCode::kCancelled);
  kill(agent, SIGKILL);
  WaitForAdopted();
}

TEST_F(RemoteLauncherTest, NoStoppedProcessOutlivesAKilledLauncher) {
  Behave("chief", "train");
  Behave("worker-0", "stubborn");
  const pid_t launcher = fork();
  if (launcher == 0) {
    WhenTraining([&] {
      kill(PidOf("worker-1"), SIGSTOP);
      kill(getpid(), SIGKILL);
    });
    Run();
    _exit(0);
  }
  WaitForAdopted();  // All processes must end; otherwise the test waits until its time limit.
}

TEST_F(RemoteLauncherTest, NoStoppedProcessOutlivesAKilledAgent) {
  Behave("chief", "train");
  WhenTraining([&] {
    kill(PidOf("worker-1"), SIGSTOP);
    kill(AgentOn("slave1"), SIGKILL);
  });
  EXPECT_THAT(Failure(), HasSubstr("worker 0 on slave1 lost its ssh connection (the agent on its host was "
                                   "killed by signal 9 (Killed))"));
  WaitForAdopted();
}

}  // namespace
}  // namespace tethys
