#include "deploy/launcher/progress_display.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/file.h"

namespace tethys {
namespace {

proto::Progress SomeProgress() {
  proto::Progress progress;
  progress.set_epoch(2);
  progress.set_epoch_samples_done(25000);
  progress.set_epoch_samples(54000);
  progress.set_loss(0.41234);
  progress.set_accuracy(0.85121);
  progress.set_samples_per_second(23377.4);
  progress.set_eta_seconds(83);
  return progress;
}

proto::EpochResult SomeEpoch() {
  proto::EpochResult result;
  result.set_epoch(2);
  result.set_train_loss(0.4123);
  result.set_train_accuracy(0.8512);
  result.set_validated(true);
  result.set_validation_loss(0.4001);
  result.set_validation_accuracy(0.86);
  result.set_train_seconds(2.31);
  result.set_samples_per_second(23377);
  return result;
}

// A display on a pipe, whose output the test reads at the end.
class Screen {
 public:
  explicit Screen(bool live) {
    int ends[2];
    TETHYS_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
    display_ = CreateProgressDisplay(write_.get(), {.live = live, .colour = live});
  }
  void Note(const std::string& note) {
    proto::ProgressEvent event;
    event.set_note(note);
    display_->OnEvent(event);
  }
  void Progress(const proto::Progress& progress = SomeProgress()) {
    proto::ProgressEvent event;
    *event.mutable_progress() = progress;
    display_->OnEvent(event);
  }
  void Event(const proto::ProgressEvent& event) { display_->OnEvent(event); }
  std::string Output() {
    display_.reset();
    char buffer[4096];
    const ssize_t got = read(read_.get(), buffer, sizeof(buffer));
    return got > 0 ? std::string(buffer, got) : "";
  }

 private:
  FileDescriptor read_, write_;
  std::unique_ptr<ProgressListener> display_;
};

TEST(ProgressDisplayTest, LiveLineShowsProgressRateAndTimeLeft) {
  EXPECT_EQ(
      LiveLine(SomeProgress(), 25, 120),
      "epoch  3/25 [#########-----------]  46 %  loss 0.4123  accuracy 0.8512  23,377 samples/s  1:23 left");
}

TEST(ProgressDisplayTest, LiveLineKeepsTheTimeLeftInNarrowTerminals) {
  EXPECT_EQ(LiveLine(SomeProgress(), 25, 79),
            "epoch  3/25 [#####-----]  46 %  loss 0.4123  accuracy 0.8512  1:23 left");
  EXPECT_EQ(LiveLine(SomeProgress(), 25, 59), "epoch  3/25  46 %  loss 0.4123  accuracy 0.8512  1:23 left");
  EXPECT_EQ(LiveLine(SomeProgress(), 25, 40), "epoch  3/25  46 %  1:23 left");
  EXPECT_EQ(LiveLine(SomeProgress(), 25, 5), "epoch");
}

TEST(ProgressDisplayTest, LiveLineShowsTheIntervalOfTheTimeLeftIfItFits) {
  proto::Estimate left;
  left.set_value(90);
  left.set_low(80);
  left.set_high(100);
  EXPECT_THAT(LiveLine(SomeProgress(), 25, 120, left), ::testing::EndsWith("  1:30 (1:20-1:40) left"));
  EXPECT_THAT(LiveLine(SomeProgress(), 25, 79, left), ::testing::EndsWith("0.8512  1:30 left"));
}

TEST(ProgressDisplayTest, ComparisonWithThePredictionIsWrappedIntoAtMostThreeLines) {
  proto::LiveState state;
  EXPECT_TRUE(ComparisonLines(state, 40).empty());
  state.mutable_comparison()->set_text("31 % slower than predicted");
  EXPECT_THAT(ComparisonLines(state, 40), ::testing::ElementsAre("  31 % slower than predicted"));
  state.mutable_comparison()->set_text("31 % slower than predicted: 14,400 samples/s, predicted 20,900");
  EXPECT_THAT(ComparisonLines(state, 40), ::testing::ElementsAre("  31 % slower than predicted: 14,400",
                                                                 "  samples/s, predicted 20,900"));
  EXPECT_EQ(ComparisonLines(state, 12).size(), 3);
}

TEST(ProgressDisplayTest, LiveLineHasNoNumbersBeforeTheFirstSample) {
  EXPECT_EQ(LiveLine(proto::Progress(), 0, 40), "epoch 1 [--------------------]   0 %");
}

TEST(ProgressDisplayTest, LiveLineShowsTheLastEpochAsComplete) {
  proto::Progress progress;
  progress.set_epoch(25);
  EXPECT_EQ(LiveLine(progress, 25, 40), "epoch 25/25 [####################] 100 %");
}

TEST(ProgressDisplayTest, LiveLineNamesTheActivityInPlaceOfTheTimeLeft) {
  proto::Progress progress = SomeProgress();
  progress.set_doing("testing");
  proto::Estimate left;
  left.set_value(0);
  for (const absl::optional<proto::Estimate>& interval : {absl::optional<proto::Estimate>(), {left}}) {
    EXPECT_EQ(
        LiveLine(progress, 25, 120, interval),
        "epoch  3/25 [#########-----------]  46 %  loss 0.4123  accuracy 0.8512  23,377 samples/s  testing");
  }
  progress.set_epoch_samples_done(0);
  progress.set_epoch(25);
  EXPECT_EQ(LiveLine(progress, 25, 60), "epoch 25/25 [####################] 100 %  testing");
}

TEST(ProgressDisplayTest, LiveLineStaysInBoundsForImpossibleNumbers) {
  proto::Progress progress = SomeProgress();
  progress.set_epoch_samples_done(90000);
  progress.set_samples_per_second(-1);
  EXPECT_EQ(LiveLine(progress, 25, 120),
            "epoch  3/25 [####################] 100 %  loss 0.4123  accuracy 0.8512  0 samples/s  1:23 left");
}

TEST(ProgressDisplayTest, EpochLineHasTrainingAndValidation) {
  const std::string whole =
      "epoch  3/25  loss 0.4123  accuracy 0.8512  validation loss 0.4001  accuracy 0.8600  2.3 s  23,377 "
      "samples/s";
  EXPECT_EQ(EpochLine(SomeEpoch(), 25, 0), whole);
  EXPECT_EQ(EpochLine(SomeEpoch(), 25, 119), whole);
}

TEST(ProgressDisplayTest, EpochLineFitsNarrowTerminals) {
  EXPECT_EQ(EpochLine(SomeEpoch(), 25, 79),
            "epoch  3/25  loss 0.4123  accuracy 0.8512  validation 0.8600  2.3 s");
  EXPECT_EQ(EpochLine(SomeEpoch(), 25, 59), "epoch  3/25  accuracy 0.8512  validation 0.8600  2.3 s");
}

TEST(ProgressDisplayTest, EpochLineOmitsMissingValidation) {
  proto::EpochResult result = SomeEpoch();
  result.set_validated(false);
  EXPECT_EQ(EpochLine(result, 5, 0), "epoch 3/5  loss 0.4123  accuracy 0.8512  2.3 s  23,377 samples/s");
}

proto::Progress LateProgress() {
  proto::Progress progress = SomeProgress();
  proto::LateTask& silent = *progress.add_late();
  silent.set_name("worker 2 on slave1");
  silent.set_silent_seconds(3.2);
  proto::LateTask& behind = *progress.add_late();
  behind.set_name("worker 4 on slave3");
  behind.set_step(1120);
  behind.set_usual_step(2240);
  return progress;
}

TEST(ProgressDisplayTest, SilentAndLateTasksHaveSeparateLines) {
  EXPECT_THAT(
      LateTaskLines(LateProgress(), {}),
      ::testing::ElementsAre("  worker 2 on slave1: silent for 3 s",
                             "  worker 4 on slave3: behind, at step 1,120; the others are at about 2,240"));
  proto::Progress progress;
  for (int i = 0; i < 100; ++i) progress.add_late()->set_silent_seconds(3);
  ASSERT_EQ(LateTaskLines(progress, {}).size(), 5);
  EXPECT_EQ(LateTaskLines(progress, {}).back(), "  and 96 more");
}

TEST(ProgressDisplayTest, SlowAndLostTasksAreListedOnce) {
  proto::LiveState state;
  for (const auto& [index, health] : {std::pair(2, "slow"), {3, "slow"}, {4, "lost"}, {5, "ok"}}) {
    proto::LiveTask& task = *state.add_task();
    task.mutable_pulse()->set_role("worker");
    task.mutable_pulse()->set_index(index);
    task.mutable_pulse()->set_host(index == 2 ? "slave1" : "slave5");
    task.set_health(health);
    task.set_compute_ratio(1.4);
  }
  EXPECT_THAT(LateTaskLines(LateProgress(), state),
              ::testing::ElementsAre(
                  "  worker 2 on slave1: silent for 3 s",
                  "  worker 4 on slave3: behind, at step 1,120; the others are at about 2,240",
                  "  worker 3 on slave5: slow, computes 1.4 times as long as the median of all workers",
                  "  worker 4 on slave5: lost"));
}

TEST(ProgressDisplayTest, LinesOfLateTasksAreClearedWhenTasksRecover) {
  Screen screen(/*live=*/true);
  screen.Progress(LateProgress());
  screen.Progress(SomeProgress());
  const std::string live = "\r" + LiveLine(SomeProgress(), 0, 79) + "\x1b[K";
  EXPECT_EQ(
      screen.Output(),
      live +
          "\n\x1b[33m  worker 2 on slave1: silent for 3 s\x1b[0m\x1b[K"
          "\n\x1b[33m  worker 4 on slave3: behind, at step 1,120; the others are at about 2,240\x1b[0m\x1b[K"
          "\x1b[2A" +
          live + "\n\x1b[J\x1b[A" + "\r\x1b[K");
}

TEST(ProgressDisplayTest, LostWorkerIsShownInRedOnlyWithColour) {
  proto::ProgressEvent event;
  event.mutable_task_lost()->set_reason("lost worker 2");
  Screen plain(/*live=*/false), coloured(/*live=*/true);
  plain.Event(event);
  coloured.Event(event);
  EXPECT_EQ(plain.Output(), "lost worker 2\n");
  EXPECT_EQ(coloured.Output(), "\x1b[31mlost worker 2\n\x1b[0m");
}

TEST(ProgressDisplayTest, PlainDisplayWritesOnlyPermanentLines) {
  Screen screen(/*live=*/false);
  screen.Progress();
  screen.Note("saved checkpoints/step-100");
  EXPECT_EQ(screen.Output(), "saved checkpoints/step-100\n");
}

TEST(ProgressDisplayTest, LiveLineIsClearedForNotesAndAtEnd) {
  Screen screen(/*live=*/true);
  screen.Progress();
  screen.Note("saved");
  screen.Progress();
  const std::string live = "\r" + LiveLine(SomeProgress(), 0, 79) + "\x1b[K";
  EXPECT_EQ(screen.Output(), live + "\r\x1b[Ksaved\n" + live + "\r\x1b[K");
}

TEST(ProgressDisplayTest, WhileOutputIsNotRead_PermanentLinesAreKeptAndLiveLinesDropped) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor read_end(ends[0]), write_end(ends[1]);
  auto display = CreateProgressDisplay(write_end.get(), {.live = true});
  proto::ProgressEvent note, progress;
  note.set_note(std::string(100'000, 'n'));  // A note that is larger than a pipe's buffer.
  *progress.mutable_progress() = SomeProgress();
  display->OnEvent(note);
  for (int i = 0; i < 100'000; ++i) display->OnEvent(progress);
  note.set_note("end");
  display->OnEvent(note);
  std::string output(100'005, '?');
  for (size_t done = 0; done < output.size();) {
    const ssize_t got = read(read_end.get(), output.data() + done, output.size() - done);
    ASSERT_GT(got, 0);
    done += got;
  }
  EXPECT_EQ(output.substr(100'000), "\nend\n");
}

}  // namespace
}  // namespace tethys
