#include "deploy/describe/run_details.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/launcher/run_directory.h"
#include "deploy/live/progress_file.h"
#include "runtime/telemetry/run_csv.h"
#include "runtime/telemetry/summary.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] = R"(
  name: "digits"
  model { layer { flatten {} } layer { dense { units: 10 } } }
  data { synthetic { noise { shape: [4, 4, 1] } train_samples: 100 } classes: 10 }
  optimizer { sgd {} learning_rate: 0.1 }
  workers: 3
  strategy { mirrored {} }
  batch_size_per_worker: 8
  epochs: 5
)";

class RunDetailsTest : public ::testing::Test {
 protected:
  RunDetailsTest() {
    EXPECT_TRUE(CreateDirectories(path_).ok());
    directory_.Write("set/run/job.textproto", kJob);
  }
  std::string Text() { return RunDetailsText(ReadRunDetails(path_).value()); }

  // The text of a steps.csv with this number of steps. The last line has no line end.
  static std::string Records(int steps) {
    std::string text = kStepsCsvHeader;
    proto::StepRecord record;
    for (int step = 0; step < steps; ++step) {
      record.set_step(step);
      absl::StrAppend(&text, "\n", StepsCsvLine(record, 0));
    }
    return text;
  }

  testing::TempDirectory directory_;
  const std::string path_ = directory_.Path("set/run");
};

TEST_F(RunDetailsTest, LostWorkersAreShownWithTheGroupChangesThatFollowed) {
  proto::RunSummary summary;
  summary.set_status("succeeded");
  proto::WorkerLoss& loss = *summary.add_worker_loss();
  loss.set_worker(1);
  loss.set_reason("its session ended");
  loss.set_seconds(2);
  proto::GroupChange& change = *summary.add_group_change();
  change.set_seconds(3);
  change.set_step(7);
  change.add_worker(0);
  change.set_cause("lost worker 1");
  change.set_stall_seconds(0.25);
  ASSERT_TRUE(WriteSummary(path_, summary).ok());
  EXPECT_THAT(Text(),
              AllOf(HasSubstr("\nlosses      1 worker was lost; training stood still for 250 ms in all\n"),
                    HasSubstr("\n            after 2 s worker 1 was lost: its session ended\n"),
                    HasSubstr("after 3 s 1 worker went on from step 7 (lost worker 1), after training")));
}

TEST_F(RunDetailsTest, EndedRunShowsTheNumbersOfItsSummary) {
  proto::RunSummary summary;
  summary.set_status("failed");
  summary.set_steps(1200);
  summary.set_epochs(4);
  summary.mutable_first_failure()->set_role("worker");
  summary.mutable_first_failure()->set_index(1);
  summary.mutable_first_failure()->set_host("slave1");
  summary.mutable_first_failure()->set_message("was killed");
  summary.mutable_timing()->set_total_seconds(75);
  summary.mutable_timing()->set_samples_per_second(12345);
  summary.mutable_validation()->set_accuracy(0.875);
  summary.mutable_cost()->set_run(0.5);
  for (const int index : {0, 1}) {
    proto::TaskSummary& task = *summary.add_task();
    task.set_role("worker");
    task.set_index(index);
    task.set_host(index == 0 ? "slave0" : "slave1");
  }
  ASSERT_TRUE(WriteSummary(path_, summary).ok());
  EXPECT_THAT(Text(), AllOf(HasSubstr("state       failed\n"),
                            HasSubstr("ended       worker 1 on slave1: was killed\n"),
                            HasSubstr("next        train from the start: no checkpoint was saved yet"),
                            HasSubstr("   tethys train " + path_ +
                                      "/job.textproto --set=checkpoint.every_epochs=1 "
                                      "--set=checkpoint.min_seconds=0\n"),
                            HasSubstr("strategy    mirrored, 3 workers, global batch 24\n"),
                            HasSubstr("progress    4 epochs, 1,200 steps\n"), HasSubstr("12,345 samples/s\n"),
                            HasSubstr("validation accuracy 0.8750"), HasSubstr("cost        0.5,"),
                            HasSubstr("hosts       slave0 (worker 0), slave1 (worker 1)\n")));
}

TEST_F(RunDetailsTest, RunningRunShowsLauncherAndProgressOfThisAttempt) {
  const auto held = RunDirectory::Open(path_);
  const NamedLauncher named(*held);
  const auto events = ProgressFile::Open(path_);
  const auto add = [&](proto::ProgressEvent event) { ASSERT_TRUE((*events)->Add(event).ok()); };
  proto::ProgressEvent listening, progress, pulse;
  listening.mutable_listening()->set_address("here");
  progress.mutable_progress()->set_epoch(1);
  progress.mutable_progress()->set_epoch_samples(100);
  progress.mutable_progress()->set_epoch_samples_done(40);
  progress.mutable_progress()->set_eta_seconds(65);
  pulse.mutable_pulse()->add_task()->set_host("slave4");
  add(listening);
  add(progress);
  add(pulse);
  EXPECT_THAT(Text(),
              AllOf(HasSubstr("running, by process "), HasSubstr("epoch 2 of 5, of which 40 % is done"),
                    HasSubstr("about 1:05 left"), HasSubstr("slave4")));
  progress.mutable_progress()->Clear();
  progress.mutable_progress()->set_epoch(5);
  progress.mutable_progress()->set_epoch_samples(100);
  add(progress);
  add(pulse);
  EXPECT_THAT(Text(), HasSubstr("epoch 5 of 5, complete")) << "it makes no sixth epoch";
  add(listening);
  EXPECT_THAT(Text(), AllOf(HasSubstr("has not begun to train"), Not(HasSubstr("slave4"))));
}

TEST_F(RunDetailsTest, LostWorkersAreShownDuringTheRunAndAfterALaterAttempt) {
  const auto add = [&](std::initializer_list<proto::ProgressEvent> added) {
    const auto events = ProgressFile::Open(path_);
    for (const proto::ProgressEvent& event : added) ASSERT_TRUE((*events)->Add(event).ok());
  };
  proto::ProgressEvent listening, lost;
  listening.mutable_listening()->set_address("here");
  lost.mutable_task_lost()->set_reason("lost worker 1 on vm: its session ended");
  add({listening, lost});
  EXPECT_THAT(Text(),
              HasSubstr("losses      1 worker was lost\n            lost worker 1 on vm: its session"));
  proto::ProgressEvent started;
  started.mutable_started()->set_workers(3);
  add({listening, started});
  EXPECT_THAT(Text(), HasSubstr("losses      1 worker was lost\n"));
  proto::RunSummary summary;
  summary.set_status("succeeded");
  summary.mutable_timing()->set_total_seconds(4);
  summary.add_attempt()->set_steps_again(1175);
  summary.add_attempt();
  ASSERT_TRUE(WriteSummary(path_, summary).ok());
  EXPECT_THAT(Text(), AllOf(HasSubstr("losses      1 worker was lost in earlier attempts\n"),
                            HasSubstr("over 2 attempts, which repeated 1,175 steps\n")));
}

TEST_F(RunDetailsTest, RunWithoutALauncherShowsItsNewestStepAndHosts) {
  ASSERT_TRUE(CreateDirectories(path_ + "/log").ok());
  proto::ProgressEvent listening, progress, epoch, pulse;
  listening.mutable_listening()->set_address("here");
  progress.mutable_progress()->set_step(20);
  progress.mutable_progress()->set_eta_seconds(65);
  epoch.mutable_epoch()->set_epoch(1);
  epoch.mutable_epoch()->set_step(24);
  pulse.mutable_pulse()->add_task()->set_host("slave4");
  {
    const auto events = ProgressFile::Open(path_);
    for (const auto& event : {listening, progress, pulse, epoch}) ASSERT_TRUE((*events)->Add(event).ok());
  }
  EXPECT_THAT(Text(),
              AllOf(HasSubstr("state       unfinished\n"), HasSubstr("progress    epoch 3 of 5, step 24\n"),
                    HasSubstr("hosts       slave4"), Not(HasSubstr("left"))));
  directory_.Write("set/run/steps.csv", Records(30) + "\n0,31,3");
  EXPECT_THAT(Text(), HasSubstr("step 24; the newest record in steps.csv is of step 30\n"));
}

TEST_F(RunDetailsTest, FailedRunShowsTheLastStepRecordedInStepsCsv) {
  proto::RunSummary summary;
  summary.set_status("failed");
  summary.set_steps(12);
  ASSERT_TRUE(WriteSummary(path_, summary).ok());
  directory_.Write("set/run/steps.csv", Records(20000) + "\n");
  EXPECT_THAT(Text(), HasSubstr("12 steps; the newest record in steps.csv is of step 20,000\n"));
  summary.set_status("succeeded");
  ASSERT_TRUE(WriteSummary(path_, summary).ok());
  EXPECT_THAT(Text(), HasSubstr("12 steps\n"));
}

TEST_F(RunDetailsTest, EveryEarlierAttemptShowsHowItEnded) {
  const auto events = ProgressFile::Open(path_);
  const auto add = [&](const proto::ProgressEvent& event) { ASSERT_TRUE((*events)->Add(event).ok()); };
  const auto listen = [&] {
    proto::ProgressEvent event;
    event.mutable_listening()->set_address("here");
    add(event);
  };
  const auto train_to = [&](int64_t step) {
    proto::ProgressEvent event;
    event.mutable_progress()->set_step(step);
    add(event);
  };
  const auto finish = [&](const std::string& error, const std::string& go_on) {
    proto::ProgressEvent event;
    event.mutable_finished()->set_error(error);
    event.mutable_finished()->set_go_on(go_on);
    add(event);
  };
  listen();  // In this attempt the chief reports a loss, and then the launcher reports the cause of the loss.
  train_to(7);
  finish("lost worker 1 on vm", "");
  finish("worker 1 on vm was killed by signal 9 (Killed) at step 7\n  the chief reports: ...", "go on");
  finish("chief on vm: no program tethys", "go on");  // The chief of this attempt did not start.
  listen();
  train_to(1234);  // The launcher of this attempt was killed, so no end is reported.
  listen();
  finish("", "");
  listen();
  finish("stopped by SIGTERM, at step 2,000", "go on");
  proto::RunSummary summary;
  summary.set_status("interrupted");
  summary.set_ending("stopped by SIGTERM, at step 2,000");
  for (int i = 0; i < 4; ++i) summary.add_attempt();
  ASSERT_TRUE(WriteSummary(path_, summary).ok());
  EXPECT_THAT(Text(), HasSubstr("ended       stopped by SIGTERM, at step 2,000\n"
                                "earlier     worker 1 on vm was killed by signal 9 (Killed) at step 7\n"
                                "earlier     chief on vm: no program tethys\n"
                                "earlier     ended after step 1,234 without reporting a result: it was "
                                "killed, or its machine went down\n"
                                "earlier     trained to its end\n"
                                "job "));
}

TEST_F(RunDetailsTest, OnlyTheNewestOfManyEarlierAttemptsHaveTheirOwnLines) {
  const auto events = ProgressFile::Open(path_);
  proto::ProgressEvent listening, finished;
  listening.mutable_listening()->set_address("here");
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE((*events)->Add(listening).ok());
    finished.mutable_finished()->set_error(absl::StrCat("reason ", i));
    ASSERT_TRUE((*events)->Add(finished).ok());
  }
  EXPECT_THAT(Text(),
              AllOf(HasSubstr("earlier     3 attempts before the attempts below\nearlier     reason 3\n"),
                    HasSubstr("earlier     reason 10\n"), Not(HasSubstr("reason 11"))));
}

TEST_F(RunDetailsTest, RunWithATruncatedSummaryIsDamagedAndTheFileIsNamed) {
  directory_.Write("set/run/summary.json", "{\"status\": \"succ");
  EXPECT_THAT(Text(), AllOf(HasSubstr("state       damaged\n"), HasSubstr("summary.json")));
}

TEST_F(RunDetailsTest, ErrorForADirectoryOfRunsNamesOneOfThem) {
  const absl::Status status = ReadRunDetails(directory_.Path("set")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("such as " + path_));
  EXPECT_EQ(ReadRunDetails(directory_.Path("nowhere")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tethys
