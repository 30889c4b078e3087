#include "runtime/chief/progress_pipe.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

proto::ProgressEvent Note(const std::string& text) {
  proto::ProgressEvent event;
  event.set_note(text);
  return event;
}
proto::ProgressEvent Progress(int64_t step) {
  proto::ProgressEvent event;
  event.mutable_progress()->set_step(step);
  return event;
}
proto::ProgressEvent Finished() {
  proto::ProgressEvent event;
  event.mutable_finished()->set_ok(true);
  return event;
}

// A pipe with a capacity of one page, which is full of unread lines.
class ProgressPipeTest : public ::testing::Test {
 protected:
  ProgressPipeTest() {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    TETHYS_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
    capacity_ = fcntl(write_.get(), F_SETPIPE_SZ, 4096);
    TETHYS_CHECK(capacity_ > 0);
    pipe_ = std::make_unique<ProgressPipe>(write_.get());
    EXPECT_TRUE(pipe_->Start().ok());
    // The writing thread blocks within the first event, so later events are queued.
    pipe_->Add(Note(std::string(3 * capacity_, 'x')));
    char first;
    TETHYS_CHECK(read(read_.get(), &first, 1) == 1);
  }

  // Destroys the ProgressPipe and returns a text for each line that it wrote after the first event:
  // "progress 3", "epoch 4", "finished", "alive" or the text of a note.
  std::vector<std::string> End() {
    std::thread closer([this] {
      pipe_.reset();
      write_.Close();
    });
    std::string text = "{";
    char buffer[4096];
    for (ssize_t got; (got = read(read_.get(), buffer, sizeof(buffer))) > 0;) text.append(buffer, got);
    closer.join();
    std::vector<std::string> words;
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      proto::ProgressEvent event;
      EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(std::string(line), &event).ok()) << line;
      if (event.has_progress()) words.push_back(absl::StrCat("progress ", event.progress().step()));
      if (event.has_pulse()) words.push_back(absl::StrCat("pulse ", event.pulse().seconds()));
      if (event.has_epoch()) words.push_back(absl::StrCat("epoch ", event.epoch().epoch()));
      if (!event.note().empty()) words.push_back(event.note().substr(0, 100));
      if (event.has_finished()) words.push_back("finished");
      if (event.event_case() == proto::ProgressEvent::EVENT_NOT_SET) words.push_back("alive");
    }
    words.erase(words.begin());
    return words;
  }

  FileDescriptor read_, write_;
  int capacity_ = 0;
  std::unique_ptr<ProgressPipe> pipe_;
};

TEST_F(ProgressPipeTest, Add_WithAReaderThatDoesNotRead_ReturnsAndKeepsTheNewestProgress) {
  for (int step = 0; step < 100'000; ++step) pipe_->Add(Progress(step));
  EXPECT_THAT(End(), ElementsAre("progress 99999"));
}

TEST_F(ProgressPipeTest, EpochEventsAndTextLines_AreAllKeptInOrder) {
  proto::ProgressEvent epoch;
  epoch.mutable_epoch()->set_epoch(4);
  pipe_->Add(Progress(1));
  pipe_->Add(epoch);
  pipe_->Add(Progress(2));
  pipe_->Add(Progress(3));
  pipe_->Add(Note("saved step-3"));
  pipe_->Add(Progress(4));
  pipe_->Add(proto::ProgressEvent());
  EXPECT_THAT(End(), ElementsAre("epoch 4", "saved step-3", "progress 4"));
}

TEST_F(ProgressPipeTest, UnreadPulseAndProgressEvents_AreReplacedOnlyByEventsOfTheirOwnKind) {
  for (int i = 1; i <= 3; ++i) {
    proto::ProgressEvent pulse;
    pulse.mutable_pulse()->set_seconds(i);
    pipe_->Add(Progress(i));
    pipe_->Add(pulse);
  }
  pipe_->Add(proto::ProgressEvent());
  EXPECT_THAT(End(), ElementsAre("progress 3", "pulse 3"));
}

TEST_F(ProgressPipeTest, TextLinesBeyondTheLimit_AreDroppedAndCountedButTheFinishedEventIsKept) {
  for (int i = 0; i < ProgressPipe::kMostWaiting + 7; ++i) pipe_->Add(Note("n"));
  pipe_->Add(Finished());
  const std::vector<std::string> words = End();
  ASSERT_THAT(words, SizeIs(ProgressPipe::kMostWaiting + 2));
  EXPECT_THAT(words[words.size() - 2], HasSubstr("warning: 7 lines"));
  EXPECT_EQ(words.back(), "finished");
}

TEST_F(ProgressPipeTest, Destructor_WithAClosedReader_Returns) {
  pipe_->Add(Finished());
  read_.Close();
  pipe_.reset();
}

TEST_F(ProgressPipeTest, Save_WithAReaderThatDoesNotRead_HasAllNumberedEvents) {
  for (int number = 1; number <= 3; ++number) {
    proto::ProgressEvent epoch;
    epoch.mutable_epoch()->set_epoch(number);
    epoch.set_number(number);
    pipe_->Add(epoch);
    pipe_->Add(Note("an event of this process alone"));
  }
  google::protobuf::RepeatedPtrField<proto::ProgressEvent> unwritten;
  pipe_->Save(unwritten);
  std::vector<int64_t> numbers;
  for (const proto::ProgressEvent& event : unwritten) numbers.push_back(event.number());
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3));
  End();
}

}  // namespace
}  // namespace tethys
