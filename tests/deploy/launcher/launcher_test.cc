#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/deploy/launcher/launcher_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LauncherTest, RunsAJobToItsEnd) {
  const RunResult result = Run();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.last_step, 7);
  EXPECT_THAT(recorder_.notes, Contains("no progress event"));
  EXPECT_TRUE(FileExists(options_.run_dir + "/log/worker-1.log"));
}

TEST_F(LauncherTest, ShowsLogsWithTheNamesOfTheirProcesses) {
  options_.show_logs = true;
  options_.places.workers[1].host = "slave2";
  EXPECT_TRUE(Run().status.ok());
  EXPECT_THAT(recorder_.notes, Contains("[worker 1 on slave2] worker-1 says work"));
  EXPECT_THAT(recorder_.notes, Contains(HasSubstr("] ps-0 says work")));
}

TEST_F(LauncherTest, LogLinesAreHeldBackWhileTheDisplayIsBehind) {
  options_.show_logs = true;
  Behave("chief", "pause");
  recorder_.on_behind = [&] { std::ofstream(options_.run_dir + "/go"); };
  EXPECT_TRUE(Run().status.ok());
  EXPECT_EQ(recorder_.notes.front(), "no progress event");
  EXPECT_THAT(recorder_.notes, Contains(HasSubstr("] worker-1 says work")));
}

TEST_F(LauncherTest, LogsAreNotShownByDefault) {
  EXPECT_TRUE(Run().status.ok());
  EXPECT_THAT(recorder_.notes, ElementsAre("no progress event"));
}

TEST_F(LauncherTest, NamesTheProcessThatCrashed) {
  Behave("chief", "train");
  Behave("worker-1", "crash");
  EXPECT_THAT(Failure(),
              AllOf(HasSubstr("worker 1 on "), HasSubstr("was killed by signal 6 (Aborted) at step "),
                    HasSubstr("worker-1 says crash")));
}

TEST_F(LauncherTest, CulpritOnAnotherHost_IsNamedWithItsHost) {
  options_.places.workers[1].host = "slave2";
  Behave("chief", "train");
  Behave("worker-1", "crash");
  const RunResult result = Run();
  EXPECT_EQ(result.culprit, "worker 1");
  EXPECT_EQ(result.host, "slave2");
}

TEST_F(LauncherTest, LinesOfEarlierAttempt_AreNotInLogTail) {
  ASSERT_TRUE(CreateDirectories(options_.run_dir + "/log").ok());
  std::ofstream(options_.run_dir + "/log/worker-1.log") << "lost worker 0 a year ago\n";
  Behave("chief", "train");
  Behave("worker-1", "crash");
  EXPECT_THAT(Failure(), AllOf(HasSubstr("worker-1 says crash"), Not(HasSubstr("a year ago"))));
}

TEST_F(LauncherTest, NamesTheProcessThatWasKilled) {
  options_.verdict_grace = FromSeconds(kNotInThisTest);
  Behave("chief", "watch");
  WhenTraining([&] { kill(PidOf("ps-0"), SIGKILL); });
  EXPECT_THAT(Failure(), AllOf(HasSubstr("ps 0 on "), HasSubstr("was killed by signal 9 (Killed) at step 7"),
                               HasSubstr("the chief reports: ps 0: its session broke")));
}

TEST_F(LauncherTest, NamesTheProcessThatExited) {
  Behave("chief", "train");
  Behave("worker-0", "exit");
  EXPECT_THAT(Failure(), AllOf(HasSubstr("worker 0 on "), HasSubstr("exited with status 3")));
}

TEST_F(LauncherTest, CrashedWorkerIsRestartedIfTheJobSurvivesWorkerLoss) {
  options_.survives_worker_loss = true;
  options_.max_restarts = 1;
  Behave("chief", "replace");
  Behave("worker-1", "crash");
  EXPECT_TRUE(Run().status.ok());
}

TEST_F(LauncherTest, WorkerWhoseExitStatusSaysThatAReplacementMaySucceed_IsReplaced) {
  options_.survives_worker_loss = true;
  options_.max_restarts = 1;
  Behave("chief", "replace");
  Behave("worker-1", "mishap");
  EXPECT_TRUE(Run().status.ok());
}

TEST_F(LauncherTest, WorkerFailureInAJobThatSurvivesNoWorkerLoss_EndsTheJob) {
  Behave("chief", "train");
  Behave("worker-1", "mishap");
  EXPECT_THAT(Failure(), HasSubstr("exited with status 75"));
}

TEST_F(LauncherTest, JobThatSurvivesWorkerLossContinuesWithoutTheCrashedWorker) {
  options_.survives_worker_loss = true;
  Behave("chief", "go-on");
  Behave("worker-1", "crash");
  EXPECT_TRUE(Run().status.ok());
  EXPECT_FALSE(FileExists(options_.run_dir + "/second-worker-1"));
}

TEST_F(LauncherTest, WorkerGivenUpByChiefIsKilledAndReplaced) {
  options_.survives_worker_loss = true;
  options_.max_restarts = 1;
  Behave("chief", "give-up");
  Behave("worker-1", "stubborn");
  WhenTraining([&] { Behave("worker-1", "work"); });  // Applies to the second incarnation of worker 1.
  EXPECT_TRUE(Run().status.ok());
}

TEST_F(LauncherTest, WorkerThatExitsWithAnErrorEndsEvenAJobThatSurvivesWorkerLoss) {
  options_.survives_worker_loss = true;
  options_.max_restarts = 5;
  Behave("chief", "train");
  Behave("worker-1", "exit");
  EXPECT_THAT(Failure(), HasSubstr("worker 1 on "));
}

TEST_F(LauncherTest, ReportsTheChiefsReason) {
  Behave("chief", "fail");
  EXPECT_THAT(Failure(),
              AllOf(HasSubstr("worker 0 at step 7: the loss is not finite"), HasSubstr("worker-0 says")));
}

TEST_F(LauncherTest, NamesAChiefThatCrashed) {
  Behave("chief", "crash");
  EXPECT_THAT(Failure(), HasSubstr("was killed by signal 6 (Aborted) at step 7"));
}

TEST_F(LauncherTest, NamesAChiefThatCannotStart) {
  Behave("chief", "die-at-once");
  EXPECT_THAT(Failure(),
              AllOf(HasSubstr("chief on "), HasSubstr("exited with status 3"), HasSubstr("cannot listen")));
}

TEST_F(LauncherTest, ChiefThatEndsWithoutAVerdictFailsTheJob) {
  Behave("chief", "quit");
  EXPECT_THAT(Failure(), HasSubstr("the chief ended without reporting the job's result"));
}

TEST_F(LauncherTest, EndsAJobWhoseChiefIsSilent) {
  options_.timeouts.set_silence(0.1);
  Behave("chief", "silent");
  EXPECT_THAT(Failure(), HasSubstr("has reported nothing for 1 s (last step 7)"));
}

TEST_F(LauncherTest, KillsProcessThatIgnoresSigterm) {
  options_.timeouts.set_shutdown(0.2);
  Behave("chief", "train");
  Behave("worker-0", "stubborn");
  Behave("worker-1", "crash");
  EXPECT_THAT(Failure(), HasSubstr("worker 1 on "));
}

TEST_F(LauncherTest, TaskThatDoesNotExitAfterTheJobEndsIsKilledAndReported) {
  options_.timeouts.set_shutdown(0.2);
  Behave("worker-0", "stubborn");
  EXPECT_TRUE(Run().status.ok());
  EXPECT_THAT(recorder_.notes, Contains("worker 0 did not end by itself; the launcher ended it"));
}

TEST_F(LauncherTest, InterruptEndsAllProcesses) {
  Behave("chief", "train");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ASSERT_TRUE(RemoveRecursively(options_.run_dir + "/started").ok());
    ASSERT_TRUE(RemoveRecursively(options_.run_dir + "/alive").ok());
    ASSERT_TRUE(CreateDirectories(options_.run_dir + "/alive").ok());
    WhenTraining([&] { raise(number); });
    EXPECT_EQ(Run().status.code(), absl::StatusCode::kCancelled);
  }
}

TEST_F(LauncherTest, FirstInterruptOfATrainingJob_LetsTheChiefSave) {
  Behave("chief", "saves");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    for (const char* file : {"/started", "/saved", "/stop", "/alive"}) {
      ASSERT_TRUE(RemoveRecursively(options_.run_dir + file).ok());
    }
    ASSERT_TRUE(CreateDirectories(options_.run_dir + "/alive").ok());
    WhenTraining([&] { raise(number); });
    EXPECT_EQ(Run().status.code(), absl::StatusCode::kCancelled);
    EXPECT_TRUE(FileExists(options_.run_dir + "/saved"));
    EXPECT_THAT(recorder_.notes, Contains(HasSubstr("another interrupt ends the job at once")));
  }
}

// While an object of this class exists, interrupts that no launcher handles are blocked. The destructor drops
// these interrupts.
class LateInterruptsDropped {
 public:
  LateInterruptsDropped() {
    sigemptyset(&interrupt_);
    sigaddset(&interrupt_, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt_, nullptr);
  }
  ~LateInterruptsDropped() {
    signal(SIGINT, SIG_IGN);  // Drops a pending interrupt.
    signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &interrupt_, nullptr);
  }

 private:
  sigset_t interrupt_;
};

TEST_F(LauncherTest, SecondInterruptKillsAllProcessesAtOnce) {
  const LateInterruptsDropped dropped;
  Behave("chief", "train");
  Behave("worker-0", "stubborn");
  const pid_t launcher = getpid();
  pid_t impatient = -1;
  WhenTraining([&] {
    raise(SIGINT);
    // A child sends interrupts until the launcher has killed the stubborn worker. The launcher does not wait
    // for this child, which it did not start.
    const pid_t worker = PidOf("worker-0");
    impatient = fork();
    if (impatient == 0) {
      while (kill(worker, 0) == 0) {
        kill(launcher, SIGINT);
        usleep(1000);
      }
      _exit(0);
    }
  });
  EXPECT_EQ(Run().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waitpid(impatient, nullptr, 0), impatient);
}

TEST_F(LauncherTest, NoOrphanOutlivesAKilledLauncher) {
  Behave("chief", "train");
  Behave("worker-0", "stubborn");
  const pid_t launcher = fork();
  if (launcher == 0) {
    WhenTraining([&] { kill(getpid(), SIGKILL); });
    Run();
    _exit(0);
  }
  // Launcher, chief, server and two workers must all end; otherwise the test waits until its time limit.
  int ended = 0;
  while (waitpid(-1, nullptr, 0) > 0) ++ended;
  EXPECT_EQ(ended, 5);
}

TEST_F(LauncherTest, NamesMissingProgram) {
  options_.places.chief.program = "/no/such/tethys";
  EXPECT_THAT(Failure(), HasSubstr(": cannot execute /no/such/tethys: No such file or directory"));
}

}  // namespace
}  // namespace tethys
