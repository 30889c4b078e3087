#include "runtime/chief/run_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

class RunRecorderTest : public ::testing::Test {
 protected:
  RunRecorder::Options Options() const {
    return {.run_dir = dir_.path(),
            .attempt = "attempt\n",
            .timing = {.workers = 1},
            .resources = {.run_dir = dir_.path(), .host = "h0", .interval = kSecond}};
  }
  // What the chief records of one step.
  static void Record(RunRecorder& recorder, int64_t step) {
    recorder.journal().Add(absl::StrCat("step ", step, "\n"));
    recorder.journal().HandOn();
    proto::StepRecords records;
    records.add_record()->set_step(step);
    EXPECT_TRUE(recorder.timing().Add(records, 0).ok());
    proto::EpochResult epoch;
    epoch.set_epoch(step);
    EXPECT_TRUE(recorder.timing().AddEpoch(epoch).ok());
    ResourceRecorder::Samples samples;
    samples.Add()->set_taken_ns(step * kSecond);
    samples.at(0).set_interval_ns(kSecond);
    EXPECT_TRUE(recorder.resources().AddOwn(samples).ok());
  }
  static void Flush(RunRecorder& recorder) {
    EXPECT_TRUE(recorder.EndBeginning().ok());
    EXPECT_TRUE(recorder.journal().Flush().ok());
    EXPECT_TRUE(recorder.timing().Flush().ok());
    EXPECT_TRUE(recorder.resources().Finish().ok());
  }
  std::string Files() const {
    std::string text;
    for (const char* file : {"journal", "steps.csv", "epochs.csv", "resources.csv"}) {
      absl::StrAppend(&text, file, ":\n", *ReadFile(absl::StrCat(dir_.path(), "/", file)));
    }
    return text;
  }
  static std::string Summary(RunRecorder& recorder) {
    proto::RunSummary summary;
    recorder.timing().FillSummary(1, summary);
    recorder.resources().FillSummary(summary);
    return summary.DebugString();
  }

  const testing::TempDirectory dir_;
  const FakeClock clock_ = {};
  proto::LogBegin begin_;
};

TEST_F(RunRecorderTest, RecorderThatTakesOver_WritesEachLineOnce) {
  for (const bool snapshot : {false, true}) {
    auto recorder = *RunRecorder::Begin(Options(), clock_, begin_);
    recorder->resources().Begin(proto::Group());
    proto::RunRecorderState state;
    EXPECT_TRUE(absl::IsUnavailable(recorder->Save(state))) << "training has not begun";
    recorder->BeginTraining();
    Record(*recorder, 0);
    Flush(*recorder);
    Record(*recorder, 1);
    ASSERT_TRUE(recorder->Save(state).ok());
    Record(*recorder, 2);
    Record(*recorder, 3);
    Flush(*recorder);
    const std::string files = Files(), summary = Summary(*recorder);

    if (snapshot) *begin_.mutable_snapshot()->mutable_recorder() = state;
    recorder.reset();
    auto next = RunRecorder::Continue(Options(), clock_, begin_);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ((*next)->training(), snapshot);
    if (!snapshot) {
      (*next)->resources().Begin(proto::Group());
      (*next)->BeginTraining();
    }
    for (int64_t step = snapshot ? 2 : 0; step < 4; ++step) Record(**next, step);
    EXPECT_TRUE((*next)->journal().CheckRepeated(/*all=*/true).ok());
    Flush(**next);
    EXPECT_EQ(Files(), files);
    EXPECT_EQ(Summary(**next), summary);
    next->reset();
    for (const char* file : {"journal", "steps.csv", "epochs.csv", "resources.csv"}) {
      ASSERT_TRUE(RemoveRecursively(absl::StrCat(dir_.path(), "/", file)).ok());
    }
  }
}

TEST_F(RunRecorderTest, SnapshotWithoutAFileOfTheRun_IsAnError) {
  auto recorder = *RunRecorder::Begin(Options(), clock_, begin_);
  recorder->resources().Begin(proto::Group());
  recorder->BeginTraining();
  Record(*recorder, 0);
  Flush(*recorder);
  ASSERT_TRUE(recorder->Save(*begin_.mutable_snapshot()->mutable_recorder()).ok());
  recorder.reset();
  ASSERT_TRUE(RemoveRecursively(dir_.path() + "/epochs.csv").ok());
  EXPECT_TRUE(absl::IsDataLoss(RunRecorder::Continue(Options(), clock_, begin_).status()));
}

TEST_F(RunRecorderTest, SnapshotOfAJobThatSamplesOtherwise_IsRefused) {
  auto recorder = *RunRecorder::Begin(Options(), clock_, begin_);
  recorder->resources().Begin(proto::Group());
  recorder->BeginTraining();
  Record(*recorder, 0);
  Flush(*recorder);
  ASSERT_TRUE(recorder->Save(*begin_.mutable_snapshot()->mutable_recorder()).ok());
  recorder.reset();
  RunRecorder::Options other = Options();
  other.resources.interval = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(RunRecorder::Continue(other, clock_, begin_).status()));
}

}  // namespace
}  // namespace tethys
