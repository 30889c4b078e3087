#include "deploy/launcher/unfinished_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "deploy/launcher/run_ending.h"
#include "runtime/telemetry/summary.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

TEST(UnfinishedSummaryTest, CulpritOnAnotherHost_IsNamedWithItsHost) {
  const testing::TempDirectory directory;
  RunResult result;
  result.status = absl::AbortedError("worker 1 on slave2 was killed by signal 9 (Killed) at step 7");
  result.culprit = "worker 1";
  result.host = "slave2";
  result.last_step = 7;
  ASSERT_TRUE(CompleteSummary(proto::JobPlan(), directory.path(), result, absl::nullopt, {}, false, "").ok());
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(directory.path());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->status(), "failed");
  EXPECT_EQ(summary->first_failure().role(), "worker");
  EXPECT_EQ(summary->first_failure().index(), 1);
  EXPECT_EQ(summary->first_failure().host(), "slave2");
}

TEST(UnfinishedSummaryTest, ReasonOfTheLauncherReplacesTheChiefsReason) {
  const testing::TempDirectory directory;
  proto::RunSummary of_chief;
  of_chief.set_status("failed");
  of_chief.set_steps(5);
  of_chief.mutable_first_failure()->set_message("lost worker 1 on slave2: its session ended");
  ASSERT_TRUE(WriteSummary(directory.path(), of_chief).ok());
  RunResult result;
  result.status = absl::AbortedError(
      "worker 1 on slave2 was killed by signal 9 (Killed) at step 7\n  the chief reports: lost worker 1");
  result.culprit = "worker 1";
  result.host = "slave2";
  ASSERT_TRUE(
      CompleteSummary(proto::JobPlan(), directory.path(), result, absl::nullopt, {}, false, "go on").ok());
  const proto::RunSummary summary = ReadSummary(directory.path()).value();
  EXPECT_EQ(summary.steps(), 5) << "the chief's measurements stay";
  EXPECT_THAT(summary.ending(),
              ::testing::StartsWith("worker 1 on slave2 was killed by signal 9 (Killed) at step 7. "
                                    "If nobody sent this signal, the machine most likely"));
  EXPECT_EQ(summary.go_on(), "go on");
  EXPECT_THAT(summary.first_failure().message(), ::testing::HasSubstr("signal 9"));
}

TEST(UnfinishedSummaryTest, StopByTheUserIsNoFailure) {
  const testing::TempDirectory directory;
  RunResult result;
  result.status = absl::CancelledError("interrupted by SIGTERM at step 1234");
  result.interrupt = SIGTERM;
  result.last_step = 1234;
  ASSERT_TRUE(CompleteSummary(proto::JobPlan(), directory.path(), result, absl::nullopt, {}, false, "").ok());
  const proto::RunSummary summary = ReadSummary(directory.path()).value();
  EXPECT_EQ(summary.status(), "interrupted");
  EXPECT_FALSE(summary.has_first_failure());
  EXPECT_EQ(summary.ending(),
            "stopped by SIGTERM (sent by tethys runs stop, by kill or by a scheduler), at step 1,234");
}

TEST(RunEndingTest, StartedRunWithoutASummaryIsReportedAsKilled) {
  const testing::TempDirectory directory;
  EXPECT_EQ(EndingOf(directory.path(), absl::nullopt).text, "") << "it has not begun";
  directory.Write("log", "");
  const RunEnding ending = EndingOf(directory.path(), absl::nullopt);
  EXPECT_THAT(ending.text, ::testing::HasSubstr(
                               "ended without reporting a result: it was killed, or its machine went down"));
  EXPECT_THAT(ending.go_on, ::testing::HasSubstr("no checkpoint was saved yet"));
}

TEST(RunEndingTest, EndingIsDescribedFromTheSummaryOfAnOlderBuild) {
  const testing::TempDirectory directory;
  proto::RunSummary summary;
  summary.set_status("failed");
  summary.mutable_first_failure()->set_role("worker");
  summary.mutable_first_failure()->set_index(1);
  summary.mutable_first_failure()->set_message("UNAVAILABLE: lost worker 1 on vm: its session ended");
  EXPECT_EQ(EndingOf(directory.path(), summary).text, "lost worker 1 on vm: its session ended");
  summary.set_status("interrupted");
  summary.clear_first_failure();
  EXPECT_EQ(EndingOf(directory.path(), summary).text, "stopped by the user");
  summary.set_status("succeeded");
  EXPECT_EQ(EndingOf(directory.path(), summary).text, "");
}

TEST(RunEndingTest, ResumeCommandOfAMovedRunNamesTheNewPath) {
  const testing::TempDirectory directory;
  proto::RunSummary summary;
  summary.set_status("failed");
  summary.set_ending("the disk was full");
  summary.set_go_on(
      "once this problem is solved, go on from step 9 with: tethys train --resume --run_dir=runs/old");
  EXPECT_THAT(EndingOf(directory.path(), summary).go_on, ::testing::Not(::testing::HasSubstr("runs/old")));
  summary.set_go_on(
      absl::StrCat("once this problem is solved, go on from step 9 with: tethys train --resume --run_dir=",
                   directory.path()));
  EXPECT_EQ(EndingOf(directory.path(), summary).go_on, summary.go_on());
}

TEST(RunEndingTest, AfterAFaultOfTheJobOrItsDataTheSuggestedCommandNamesTheUsersJobFile) {
  const testing::TempDirectory directory;
  directory.Write(kStartFile, "tethys train pets.textproto --set=seed=2\n");
  for (const absl::Status& fault : {absl::InvalidArgumentError("cat/2.png: 36 x 28 pixels"),
                                    absl::DataLossError("cat/3.jpg: the JPEG is damaged")}) {
    const std::string go_on = GoOnText(directory.path(), /*scheduled=*/false, fault);
    EXPECT_THAT(go_on, ::testing::StartsWith("once this problem is solved, train from the start"));
    EXPECT_THAT(go_on, ::testing::EndsWith(": tethys train pets.textproto --set=seed=2"));
    proto::RunSummary summary;
    summary.set_status("failed");
    summary.set_go_on(go_on);
    EXPECT_EQ(EndingOf(directory.path(), summary).go_on, go_on) << "later commands name it, too";
  }
  // After a kill the user need not change the job. The command names the copy of the job in the run
  // directory, because the user's own file may have changed since the start.
  EXPECT_THAT(GoOnText(directory.path(), /*scheduled=*/false, absl::AbortedError("killed")),
              ::testing::EndsWith(": tethys train " + directory.path() + "/job.textproto"));
}

TEST(RunEndingTest, SuggestedRestartAndResumeCommandsKeepTheHostFlagsOfTheRun) {
  const testing::TempDirectory directory;
  const auto command = [&] {
    return GoOnText(directory.path(), /*scheduled=*/false, absl::AbortedError("killed"));
  };
  ASSERT_TRUE(KeepHostFlags(directory.path(), " --hostfile=hosts --tls=off").ok());
  EXPECT_THAT(command(), ::testing::EndsWith("/job.textproto --hostfile=hosts --tls=off"));
  ASSERT_TRUE(CreateDirectories(directory.path() + "/checkpoints/step-9").ok());
  directory.Write("checkpoints/step-9/manifest.textproto", "");
  EXPECT_EQ(command(),
            absl::StrCat("go on from step 9 with: tethys train --resume --hostfile=hosts --tls=off "
                         "--run_dir=",
                         directory.path()));
  ASSERT_TRUE(KeepHostFlags(directory.path(), "").ok());
  EXPECT_THAT(command(), ::testing::HasSubstr("train --resume --run_dir="));
}

TEST(RunEndingTest, SuggestedRestartOfAKilledRunSavesACheckpointEachEpoch) {
  const testing::TempDirectory directory;
  const std::string start = ": tethys train " + directory.path() + "/job.textproto";
  const auto go_on = [&](const std::string& fields) {
    directory.Write("job.textproto", absl::StrCat(R"(
        model { layer { flatten {} } layer { dense { units: 2 } } }
        data { synthetic { noise { shape: [2, 2, 1] } train_samples: 8 } classes: 2 }
        optimizer { sgd {} learning_rate: 0.1 }
        batch_size_per_worker: 2 )",
                                                  fields));
    return GoOnText(directory.path(), /*scheduled=*/false, absl::AbortedError("killed"));
  };
  EXPECT_THAT(go_on("epochs: 5"), ::testing::EndsWith(start + " --set=checkpoint.every_epochs=1"
                                                              " --set=checkpoint.min_seconds=0"));
  EXPECT_THAT(go_on("epochs: 5 checkpoint { every_epochs: 3 }"),
              ::testing::EndsWith(start + " --set=checkpoint.every_epochs=1"));
  for (const char* enough :
       {"epochs: 1", "epochs: 5 checkpoint { every_epochs: 1 }", "epochs: 5 checkpoint { every_steps: 7 }"}) {
    EXPECT_THAT(go_on(enough), ::testing::EndsWith(start)) << enough;
  }
}

TEST(RunEndingTest, RunOfAComparisonIsResumedByTheComparisonsCommand) {
  const testing::TempDirectory directory;
  const std::string run = directory.path() + "/a-r0";
  ASSERT_TRUE(CreateDirectories(run + "/checkpoints/step-9").ok());
  ASSERT_TRUE(WriteFileAtomically(run + "/log", "").ok());
  const std::string command =
      absl::StrCat("tethys compare a.textproto --resume --run_dir=", directory.path());
  directory.Write(kGoOnFile, command + "\n");
  EXPECT_EQ(EndingOf(run, absl::nullopt).go_on,
            "to repeat this run, go on with its comparison or study with: " + command);
  EXPECT_EQ(GoOnText(run, /*scheduled=*/false, absl::CancelledError("")), EndingOf(run, absl::nullopt).go_on);
  // The directory was moved after the command had been stored in it.
  directory.Write(kGoOnFile, "tethys compare a.textproto --resume --run_dir=runs/old\n");
  EXPECT_EQ(EndingOf(run, absl::nullopt).go_on,
            "to repeat this run, go on with its comparison or study by the same command as before with "
            "--resume --run_dir=" +
                directory.path());
  proto::RunSummary summary;
  summary.set_status("interrupted");
  summary.set_go_on("go on with: " + command);
  EXPECT_EQ(EndingOf(run, summary).go_on, summary.go_on());
}

TEST(CompleteSummaryTest, AttemptThatDidNotTrain_FollowsTheEarlierAttempt) {
  const testing::TempDirectory directory;
  proto::RunSummary summary;
  summary.set_ending("ps 0 was killed");
  summary.add_attempt()->set_end_step(20);
  ASSERT_TRUE(WriteSummary(directory.path(), summary).ok());
  RunResult result;
  result.status = absl::UnavailableError("cannot start ps 0");
  ASSERT_TRUE(
      CompleteSummary(proto::JobPlan(), directory.path(), result, absl::nullopt, {}, true, "go on").ok());
  summary = ReadSummary(directory.path()).value();
  ASSERT_EQ(summary.attempt_size(), 2);
  EXPECT_EQ(summary.attempt(0).ending(), "ps 0 was killed");
  EXPECT_EQ(summary.attempt(1).first_step(), 20);
  EXPECT_EQ(summary.ending(), "cannot start ps 0");
}

}  // namespace
}  // namespace tethys
