#include "deploy/launcher/tensorboard_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "deploy/launcher/paths_here.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;

class Recorder final : public ProgressListener {
 public:
  void OnEvent(const proto::ProgressEvent& event) override {
    ++events;
    if (event.has_note()) notes.push_back(event.note());
  }
  void OnLogLine(const std::string& line) override { notes.push_back(line); }
  int events = 0;
  std::vector<std::string> notes;
};

class TensorboardLogTest : public ::testing::Test {
 protected:
  TensorboardOptions Options() {
    return {.run_dir = directory_.path(),
            .wall_seconds = [this] { return ++now_; },
            .learning_rate = [](int64_t epoch, int64_t position) { return epoch + position / 100.0; }};
  }
  static proto::ProgressEvent Started(int64_t step) {
    proto::ProgressEvent event;
    event.mutable_started()->set_step(step);
    return event;
  }
  static proto::ProgressEvent Progress(int64_t step, int64_t done) {
    proto::ProgressEvent event;
    proto::Progress& progress = *event.mutable_progress();
    progress.set_epoch(1);
    progress.set_epoch_samples_done(done);
    progress.set_step(step);
    progress.set_loss(0.5);
    progress.set_accuracy(0.75);
    progress.set_samples_per_second(1000);
    return event;
  }
  static proto::ProgressEvent Epoch(int64_t number, int64_t step) {
    proto::ProgressEvent event;
    proto::EpochResult& epoch = *event.mutable_epoch();
    epoch.set_epoch(number);
    epoch.set_step(step);
    epoch.set_train_loss(0.25);
    epoch.set_train_accuracy(0.875);
    epoch.set_validated(true);
    epoch.set_validation_loss(0.5);
    epoch.set_validation_accuracy(0.75);
    return event;
  }
  // The events written so far: scalars as "STEP TAG VALUE", and starts of sessions as "STEP start".
  std::vector<std::string> Written() {
    std::vector<std::string> written;
    const std::vector<std::string> files = *ListDirectory(directory_.path());
    for (const std::string& name : files) {
      const std::string data = *ReadFile(directory_.Path(name));
      for (size_t at = 0; at < data.size();) {
        uint64_t size = 0;
        std::memcpy(&size, data.data() + at, sizeof(size));
        proto::Event event;
        EXPECT_TRUE(event.ParseFromArray(data.data() + at + 12, static_cast<int>(size)));
        at += size + 16;
        if (event.has_file_version()) continue;
        if (event.has_session_log()) written.push_back(absl::StrCat(event.step(), " start"));
        for (const auto& value : event.summary().value()) {
          written.push_back(absl::StrCat(event.step(), " ", value.tag(), " ", value.simple_value()));
        }
      }
    }
    return written;
  }

  testing::TempDirectory directory_;
  double now_ = 1000;
  Recorder recorder_;
};

TEST_F(TensorboardLogTest, EpochIsWrittenAtItsLastStep) {
  TensorboardLog log(Options(), recorder_);
  log.OnEvent(Epoch(2, 7));
  EXPECT_THAT(Written(), IsSupersetOf({"7 loss/train 0.25", "7 accuracy/train 0.875", "7 loss/validation 0.5",
                                       "7 accuracy/validation 0.75", "7 epoch/learning_rate 2"}));
}

TEST_F(TensorboardLogTest, EpochWithoutValidationHasNoValidationPoints) {
  TensorboardLog log(Options(), recorder_);
  proto::ProgressEvent event = Epoch(0, 7);
  event.mutable_epoch()->set_validated(false);
  log.OnEvent(event);
  for (const std::string& line : Written()) EXPECT_EQ(line.find("validation"), std::string::npos) << line;
}

TEST_F(TensorboardLogTest, ProgressIsWrittenWithTheLearningRateAtItsSampleCount) {
  TensorboardLog log(Options(), recorder_);
  log.OnEvent(Progress(9, 50));
  EXPECT_THAT(Written(), ElementsAre("9 progress/loss 0.5", "9 progress/accuracy 0.75",
                                     "9 progress/samples_per_second 1000", "9 progress/learning_rate 1.5"));
}

TEST_F(TensorboardLogTest, ProgressWithoutNewSamplesIsNotWritten) {
  TensorboardLog log(Options(), recorder_);
  log.OnEvent(Progress(9, 0));
  EXPECT_THAT(Written(), IsEmpty());
  log.OnEvent(Progress(9, 50));
  log.OnEvent(Progress(9, 50));
  EXPECT_THAT(Written(), SizeIs(4));
}

TEST_F(TensorboardLogTest, ResumedRunDoesNotRepeatThePointOfItsCheckpoint) {
  TensorboardOptions options = Options();
  options.resumed = true;
  TensorboardLog log(options, recorder_);
  log.OnEvent(Started(9));
  log.OnEvent(Progress(9, 50));
  EXPECT_THAT(Written(), ElementsAre("10 start"));
  log.OnEvent(Progress(10, 60));
  EXPECT_THAT(Written(), SizeIs(5));
}

TEST_F(TensorboardLogTest, PhaseTimesAreMeansOverStepsOfEndedEpochs) {
  TensorboardLog log(Options(), recorder_);
  log.OnEvent(Epoch(1, 7));
  EXPECT_TRUE(log.needs_steps());
  log.AddSteps(
      "rank,step,epoch,data_ns,total_ns\n"
      "0,6,2,1000,10000\n");
  log.AddSteps(
      "rank,step,epoch,data_ns,total_ns\n"
      "1,6,2,3000,20000\n"
      "0,7,3,9000,90000\n");
  log.AddResults({});
  EXPECT_THAT(Written(), IsSupersetOf({"7 step_us/data 2", "7 step_us/total 15"}));
}

TEST_F(TensorboardLogTest, TestResultIsWrittenAtEnd) {
  TensorboardLog log(Options(), recorder_);
  proto::RunSummary summary;
  summary.set_steps(21);
  summary.mutable_test()->set_loss(0.5);
  summary.mutable_test()->set_accuracy(0.75);
  log.AddResults(summary);
  EXPECT_THAT(Written(), ElementsAre("21 loss/test 0.5", "21 accuracy/test 0.75"));
}

TEST_F(TensorboardLogTest, ResumedRunDiscardsLaterStepsOnceItTrains) {
  TensorboardOptions options = Options();
  options.resumed = true;
  TensorboardLog log(options, recorder_);
  EXPECT_THAT(Written(), IsEmpty()) << "it may still end before";
  log.OnEvent(Started(7));
  EXPECT_THAT(Written(), ElementsAre("8 start"));
}

TEST_F(TensorboardLogTest, FirstAttemptDiscardsNothing) {
  TensorboardLog log(Options(), recorder_);
  log.OnEvent(Started(0));
  EXPECT_THAT(Written(), IsEmpty());
}

TEST_F(TensorboardLogTest, RemoteChiefsNotesAboutSavedCheckpointsNameTheLocalDirectory) {
  PathsHere paths("/home/u/.cache/tethys/runs/a-1", "runs/a", recorder_);
  for (const char* note : {"saved /home/u/.cache/tethys/runs/a-1/checkpoints/step-8",
                           "warning: /home/u/.cache/tethys/runs/a-1/steps.csv: no room", "another"}) {
    proto::ProgressEvent event;
    event.set_note(note);
    paths.OnEvent(event);
  }
  EXPECT_THAT(recorder_.notes,
              ElementsAre("saved runs/a/checkpoints/step-8",
                          "warning: /home/u/.cache/tethys/runs/a-1/steps.csv: no room", "another"));
}

TEST_F(TensorboardLogTest, UnwritableFileIsNotedOnceAndRunContinues) {
  TensorboardOptions options = Options();
  options.run_dir = "/nowhere";
  TensorboardLog log(options, recorder_);
  log.OnEvent(Epoch(0, 7));
  log.OnEvent(Progress(9, 50));
  EXPECT_THAT(recorder_.notes, ElementsAre(HasSubstr("/nowhere")));
  EXPECT_EQ(recorder_.events, 3);
}

}  // namespace
}  // namespace tethys
