#include "deploy/launcher/run_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/run_directory.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/summary.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kJob[] = R"(
  model { layer { flatten {} } layer { dense { units: 10 } } }
  data { synthetic { noise { shape: [4, 4, 1] } train_samples: 100 } classes: 10 }
  optimizer { sgd {} learning_rate: 0.1 }
  batch_size_per_worker: 8
  epochs: 1
)";

class RunListTest : public ::testing::Test {
 protected:
  void Write(const std::string& run, const std::string& file, const std::string& text) {
    EXPECT_TRUE(CreateDirectories(folder_.path() + "/" + run).ok());
    EXPECT_TRUE(WriteFileAtomically(folder_.path() + "/" + run + "/" + file, text).ok());
  }
  // Makes a run that ended with `status`. If `status` is empty, makes a job that was never run.
  void Run(const std::string& name, const std::string& status = "") {
    Write(name, "job.textproto", kJob);
    if (status.empty()) return;
    proto::RunSummary summary;
    summary.set_status(status);
    summary.mutable_timing()->set_total_seconds(75);
    summary.mutable_test()->set_accuracy(0.875);
    EXPECT_TRUE(WriteSummary(folder_.path() + "/" + name, summary).ok());
  }
  std::vector<ListedRun> List() { return ListRuns(folder_.path()).value(); }
  // "NAME: STATE" for each run.
  std::vector<std::string> States() {
    std::vector<std::string> states;
    for (const ListedRun& run : List())
      states.push_back(absl::StrCat(run.name, ": ", RunStateText(run.state)));
    return states;
  }

  testing::TempDirectory folder_;
};

TEST_F(RunListTest, StateComesFromTheSummary) {
  Run("a", "succeeded");
  Run("b", "failed");
  Run("c", "interrupted");
  EXPECT_THAT(States(), ElementsAre("a: finished", "b: failed", "c: unfinished"));
}

TEST_F(RunListTest, WithoutASummaryARunIsUnfinishedIfItWasStarted) {
  Run("advice");
  Run("killed");
  Write("killed/log", "chief.log", "");
  Run("scheduled");
  Write("scheduled", "journal", "");
  EXPECT_THAT(States(), ElementsAre("advice: not started", "killed: unfinished", "scheduled: unfinished"));
}

TEST_F(RunListTest, SweepIsListedAsFinishedOnceItsResultFileExists) {
  Run("sweep-a");
  EXPECT_THAT(States(), ElementsAre("sweep-a: not started"));
  Write("sweep-a", "sweep.json", "{}");
  EXPECT_THAT(States(), ElementsAre("sweep-a: finished"));
  EXPECT_EQ(List()[0].strategy, "sweep");
}

TEST_F(RunListTest, FinishedRunIsListedWithItsResults) {
  Run("a", "succeeded");
  Write("a", "log", std::string(5000, 'x'));
  const ListedRun run = List()[0];
  EXPECT_EQ(run.strategy, "local");
  EXPECT_EQ(run.seconds, 75);
  EXPECT_EQ(run.test_accuracy, 0.875);
  EXPECT_GT(run.bytes, 5000);
  EXPECT_GT(run.started, 0);
  EXPECT_THAT(RunListText({run}), AllOf(HasSubstr("finished"), HasSubstr("1:15"), HasSubstr("87.50")));
}

TEST_F(RunListTest, RunIsRunningWhileItsDirectoryIsLocked) {
  Run("a", "interrupted");
  {
    const auto held = RunDirectory::Open(folder_.path() + "/a");
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_THAT(States(), ElementsAre("a: running"));
    EXPECT_FALSE(List()[0].test_accuracy.has_value()) << "the summary is of an earlier attempt";
  }
  EXPECT_THAT(States(), ElementsAre("a: unfinished"));
  EXPECT_TRUE(RunDirectory::Open(folder_.path() + "/a").ok()) << "listing keeps no lock";
}

TEST_F(RunListTest, RunWithTruncatedFilesIsListedAsDamaged) {
  Run("a", "succeeded");
  Write("a", "summary.json", "{\"status\": \"succ");
  Run("b", "succeeded");
  Write("b", "job.textproto", "model {");
  EXPECT_THAT(States(), ElementsAre("a: damaged", "b: damaged"));
  EXPECT_THAT(RunListText(List()), AllOf(HasSubstr("a is damaged: "), HasSubstr("b is damaged: ")));
}

TEST_F(RunListTest, DirectoriesWithoutARunAreMarkedAndRunsOfComparisonsAreListed) {
  Write("photos", "cat.jpg", "cat");
  Write("", "notes.txt", "a file is not listed");
  Run("compare-1/x-r0", "succeeded");
  Run("compare-1/x-r1", "failed");
  EXPECT_THAT(States(), ElementsAre("compare-1/x-r0: finished", "compare-1/x-r1: failed", "photos: no run"));
}

TEST_F(RunListTest, OverviewHasALineForEachComparisonAndTheNewestLast) {
  const auto run = [](const std::string& name, RunState state, int64_t started) {
    return ListedRun{.name = name, .state = state, .started = started, .seconds = 60, .bytes = 1024};
  };
  std::vector<ListedRun> runs = {run("a-new", RunState::kFinished, 900),
                                 run("b-old", RunState::kFailed, 100),
                                 run("compare/x-r0", RunState::kFinished, 300),
                                 run("compare/x-r0.aside", RunState::kFinished, 200),
                                 run("compare/x-r0.old-1", RunState::kFailed, 200),
                                 run("compare/x-r1", RunState::kUnfinished, 400),
                                 run("advice", RunState::kNotStarted, 1000),
                                 run("photos", RunState::kNoRun, 0),
                                 run("latest -> a/b", RunState::kLink, 0)};
  runs[0].test_accuracy = 0.5;
  runs[1].validation_accuracy = 0.25;
  const std::vector<ListedRun> shown = Overview(runs);
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_EQ(shown[0].name, "b-old");
  EXPECT_EQ(shown[1].name, "compare/");
  EXPECT_EQ(shown[1].strategy, "1 of 2 runs");
  EXPECT_EQ(RunStateText(shown[1].state), "unfinished");
  EXPECT_EQ(shown[1].seconds, 240);
  EXPECT_EQ(shown[2].name, "a-new");
  EXPECT_EQ(LeftOutText(runs),
            "Left out: 1 job that was not started, 1 symbolic link and 1 other directory; --all lists "
            "everything.\n");
  EXPECT_EQ(LeftOutText({runs[0]}), "");
  runs[2].state = RunState::kFailed;  // A failed run decides the state even if another run is unfinished.
  EXPECT_EQ(RunStateText(Overview(runs)[1].state), "failed");
  runs[2].state = RunState::kFinished;
  EXPECT_THAT(RunListText(shown),
              AllOf(HasSubstr("test %  validation %"), HasSubstr(" 50.00 "), HasSubstr(" 25.00 ")));
}

TEST_F(RunListTest, LinksToRunsAreMarkedAsLinks) {
  Run("a", "succeeded");
  ASSERT_EQ(symlink("a", folder_.Path("latest").c_str()), 0);
  EXPECT_THAT(States(), ElementsAre("a: finished", "latest -> a: link"));
}

TEST_F(RunListTest, ErrorNamesTheMissingFolderOfRuns) {
  const absl::Status status = ListRuns(folder_.path() + "/nowhere").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace tethys
