#include "deploy/launcher/failure_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "deploy/process/exit_status.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// Tests call the functions of this class in the order of the events that they report.
class FailureReportTest : public ::testing::Test {
 protected:
  void Killed(const std::string& task, int signal) {
    end_.lost.push_back({task, "host", {.signal = signal}, end_.verdict.has_value()});
  }
  void Exited(const std::string& task, int code) {
    end_.lost.push_back({task, "host", {.code = code}, end_.verdict.has_value()});
  }
  void ChiefSays(const std::string& error, const std::string& culprit = "") {
    end_.verdict.emplace();
    end_.verdict->set_error(error);
    end_.verdict->set_culprit(culprit);
    end_.verdict->set_status_code(static_cast<int>(absl::StatusCode::kUnavailable));
  }
  std::string Message() { return std::string(FindFirstFailure(end_, "host").status.message()); }
  std::string Task() { return FindFirstFailure(end_, "host").task; }

  JobEnd end_ = {.last_step = 312};
};

TEST_F(FailureReportTest, ProcessKilledAfterSuccessIsNoFailure) {
  end_.verdict.emplace();
  end_.verdict->set_ok(true);
  Killed("worker 1", SIGKILL);
  EXPECT_TRUE(FindFirstFailure(end_, "host").status.ok());
}

TEST_F(FailureReportTest, KilledProcessIsNamedRatherThanExitsOfOthers) {
  Exited("worker 0", 1);
  Killed("worker 1", SIGKILL);
  Exited("chief", 1);
  EXPECT_EQ(Message(), "worker 1 on host was killed by signal 9 (Killed) at step 312");
  EXPECT_EQ(Task(), "worker 1");
}

TEST_F(FailureReportTest, ErrorNamesSignalAndThenTheChiefsReport) {
  Killed("ps 0", SIGSEGV);
  ChiefSays("ps 0: its session broke", "ps 0");
  EXPECT_EQ(Message(),
            "ps 0 on host was killed by signal 11 (Segmentation fault) at step 312\n"
            "  the chief reports: ps 0: its session broke");
}

TEST_F(FailureReportTest, TaskThatTheChiefBlamedIsNamedIfItsDeathIsSeenLater) {
  ChiefSays("worker 1: its session broke", "worker 1");
  Killed("worker 1", SIGKILL);
  EXPECT_THAT(Message(), HasSubstr("worker 1 on host was killed by signal 9"));
}

TEST_F(FailureReportTest, ProcessKilledAfterTheChiefBlamedAnotherTaskIsNotNamed) {
  ChiefSays("worker 0 at step 311: gradients are not finite", "worker 0");
  Killed("ps 1", SIGABRT);
  EXPECT_EQ(Message(), "worker 0 at step 311: gradients are not finite");
  EXPECT_EQ(Task(), "worker 0");
}

TEST_F(FailureReportTest, VerdictOfTheChiefIsPreferredToExitStatuses) {
  Exited("worker 2", 1);
  ChiefSays("worker 1 has been silent for 10 s", "worker 1");
  Exited("worker 1", 3);
  EXPECT_EQ(Message(),
            "worker 1 has been silent for 10 s\n  worker 1 on host exited with status 3 at step 312");
  EXPECT_EQ(FindFirstFailure(end_, "host").status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(FailureReportTest, ExitStatusOfReportedFailure_IsLeftOut) {
  for (const int code : {1, 75}) {
    end_ = {.last_step = 312};
    Exited("worker 1", code);
    ChiefSays("worker 1 on host: the loss became nan", "worker 1");
    EXPECT_EQ(Message(), "worker 1 on host: the loss became nan");
  }
}

TEST_F(FailureReportTest, ReasonIsTheErrorWithoutTheTaskAndHostBeforeIt) {
  ChiefSays("worker 1 on host: the loss became nan", "worker 1");
  EXPECT_EQ(ReasonOf(FindFirstFailure(end_, "host"), "host"), "the loss became nan");
  ChiefSays("the disk is full", "");
  EXPECT_EQ(ReasonOf(FindFirstFailure(end_, "host"), "host"), "the disk is full");
}

TEST_F(FailureReportTest, WithoutAVerdictOfTheChiefTheFirstTaskToExitIsNamed) {
  Exited("worker 2", 1);
  Exited("worker 0", 1);
  EXPECT_EQ(Message(), "worker 2 on host exited with status 1 at step 312");
}

TEST_F(FailureReportTest, SilentChiefIsNamed) {
  end_.chief_silent_for = 12;
  EXPECT_THAT(Message(), HasSubstr("chief on host has reported nothing for 12 s (last step 312)"));
  EXPECT_EQ(Task(), "chief");
}

TEST_F(FailureReportTest, InterruptNamesNoTask) {
  end_.interrupt = SIGINT;
  const FirstFailure failure = FindFirstFailure(end_, "host");
  EXPECT_EQ(failure.status, absl::CancelledError("interrupted by SIGINT at step 312"));
  EXPECT_EQ(failure.task, "");
}

TEST_F(FailureReportTest, InvalidStatusCodeBecomesUnknown) {
  ChiefSays("odd");
  end_.verdict->set_status_code(4711);
  EXPECT_EQ(FindFirstFailure(end_, "host").status.code(), absl::StatusCode::kUnknown);
}

TEST_F(FailureReportTest, FailureByAKilledOrSilentProcess_CountsAsProcessLoss) {
  Killed("ps 0", SIGKILL);
  EXPECT_TRUE(FindFirstFailure(end_, "host").loss);
  end_ = {.chief_silent_for = 12};
  EXPECT_TRUE(FindFirstFailure(end_, "host").loss);
  end_ = {};
  Exited("worker 1", kExitMishap);
  EXPECT_TRUE(FindFirstFailure(end_, "host").loss);
  end_ = {};
  ChiefSays("worker 1 has been silent for 10 s", "worker 1");
  EXPECT_TRUE(FindFirstFailure(end_, "host").loss);
}

TEST_F(FailureReportTest, FailureThatARestartWouldNotCure_DoesNotCountAsProcessLoss) {
  ChiefSays("worker 0: the loss became nan", "worker 0");
  end_.verdict->set_status_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(FindFirstFailure(end_, "host").loss);
  ChiefSays("the disk is full");
  EXPECT_FALSE(FindFirstFailure(end_, "host").loss) << "no task is to blame";
  end_ = {.interrupt = SIGINT};
  Killed("worker 1", SIGKILL);
  EXPECT_FALSE(FindFirstFailure(end_, "host").loss);
  end_ = {.launch = absl::UnavailableError("cannot start ps 0")};
  EXPECT_FALSE(FindFirstFailure(end_, "host").loss);
  end_ = {};
  Exited("worker 1", kExitFailed);
  EXPECT_FALSE(FindFirstFailure(end_, "host").loss);
}

TEST_F(FailureReportTest, ChiefWithoutVerdictIsFailure) {
  EXPECT_EQ(Message(), "the chief ended without reporting the job's result");
}

}  // namespace
}  // namespace tethys
