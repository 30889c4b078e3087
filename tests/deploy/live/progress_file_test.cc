// Tests writing, thinning and reading RUN_DIR/progress.jsonl.
#include "deploy/live/progress_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "deploy/launcher/progress_log.h"
#include "deploy/process/scratch_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::ProgressEvent Pulse(double seconds) {
  proto::ProgressEvent event;
  event.mutable_pulse()->set_seconds(seconds);
  return event;
}
proto::ProgressEvent Progress(int64_t step) {
  proto::ProgressEvent event;
  event.mutable_progress()->set_step(step);
  return event;
}
proto::ProgressEvent Note(const std::string& text) {
  proto::ProgressEvent event;
  event.set_note(text);
  return event;
}

class ProgressFileTest : public ::testing::Test {
 protected:
  std::string path() const { return absl::StrCat(directory(), "/", kProgressFile); }
  const std::string& directory() const { return scratch_.path(); }
  void Append(const std::string& text) {
    const auto file = AppendFile::Open(path());
    ASSERT_TRUE(file.ok() && (*file)->Append(text).ok());
  }
  // The new events as words: "pulse 3", "progress 4", "note TEXT".
  std::vector<std::string> Read() {
    std::vector<std::string> words;
    const absl::Status status =
        reader_.ReadNew([&] { words.push_back("restart"); },
                        [&](const proto::ProgressEvent& event) {
                          if (event.has_pulse())
                            words.push_back(absl::StrCat("pulse ", event.pulse().seconds()));
                          if (event.has_progress())
                            words.push_back(absl::StrCat("progress ", event.progress().step()));
                          if (!event.note().empty()) words.push_back(absl::StrCat("note ", event.note()));
                        });
    EXPECT_TRUE(status.ok()) << status;
    return words;
  }

  ScratchDirectory scratch_ = *ScratchDirectory::Create();
  ProgressReader reader_{scratch_.path()};
};

TEST_F(ProgressFileTest, ReaderReturnsEventsAddedSinceItsLastRead) {
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_FALSE(reader_.found());
  auto file = *ProgressFile::Open(directory());
  ASSERT_TRUE(file->Add(Progress(1)).ok());
  ASSERT_TRUE(file->Add(Progress(2)).ok());
  ASSERT_TRUE(file->Add(Pulse(1)).ok());
  EXPECT_THAT(Read(), ElementsAre("restart", "progress 2", "pulse 1"));
  ASSERT_TRUE(file->Add(Note("saved")).ok());
  EXPECT_THAT(Read(), ElementsAre("note saved"));
  EXPECT_THAT(Read(), IsEmpty());
}

TEST_F(ProgressFileTest, IncompleteLastLineIsReadOnceComplete) {
  Append("{\"note\":\"a\"}\n{\"note\":\"b");
  EXPECT_THAT(Read(), ElementsAre("restart", "note a"));
  Append("c\"}\n");
  EXPECT_THAT(Read(), ElementsAre("note bc"));
  EXPECT_EQ(reader_.unreadable(), 0);
}

TEST_F(ProgressFileTest, ResumedRunCutsOffAnIncompleteLine) {
  Append("{\"note\":\"a\"}\n{\"pul");
  auto file = *ProgressFile::Open(directory());
  ASSERT_TRUE(file->Add(Note("b")).ok());
  EXPECT_THAT(Read(), ElementsAre("restart", "note a", "note b"));
}

TEST_F(ProgressFileTest, LinesOfAnotherVersionAreCountedAndSkipped) {
  Append(
      "{\"note\":\"a\",\"later_field\":[1]}\n{\"later_event\":{}}\nnonsense\n{\"note\":3}\n\n{\"note\":\"b\"}"
      "\n");
  EXPECT_THAT(Read(), ElementsAre("restart", "note a", "note b"));
  EXPECT_EQ(reader_.unreadable(), 3);
}

TEST_F(ProgressFileTest, TooLongLineIsSkippedAndCounted) {
  const std::string part(1 << 20, 'x');
  for (int i = 0; i < 6; ++i) Append(part);
  EXPECT_THAT(Read(), ElementsAre("restart"));
  Append("\n{\"note\":\"b\"}\n");
  EXPECT_THAT(Read(), ElementsAre("note b"));
  EXPECT_EQ(reader_.unreadable(), 1);
}

TEST_F(ProgressFileTest, FileStaysBoundedAndKeepsItsBeginningAndItsEnd) {
  constexpr int64_t kMost = 20'000;
  auto file = *ProgressFile::Open(directory(), kMost);
  ASSERT_TRUE(file->Add(Note("begin")).ok());
  for (int i = 1; i <= 5000; ++i) {
    ASSERT_TRUE(file->Add(Pulse(i)).ok());
    ASSERT_LE(static_cast<int64_t>(std::filesystem::file_size(path())), kMost);
    if (i == 10) {
      EXPECT_EQ(Read().size(), 12);
    }
  }
  const std::vector<std::string> words = Read();
  ASSERT_GT(words.size(), 100);
  EXPECT_EQ(words[0], "restart");
  EXPECT_EQ(words[1], "note begin");
  EXPECT_EQ(words[2], "pulse 1");
  EXPECT_EQ(words.back(), "pulse 5000");
  EXPECT_EQ(words[words.size() - 2], "pulse 4999");
}

TEST_F(ProgressFileTest, LongNoteIsCutBetweenCharacters) {
  const std::string part(1023, 'a');
  auto file = *ProgressFile::Open(directory());
  ASSERT_TRUE(file->Add(Note(part + "\u00e9\u00e9")).ok());
  EXPECT_THAT(Read(), ElementsAre("restart", "note " + part));
}

struct Words final : ProgressListener {
  void OnEvent(const proto::ProgressEvent& event) override { words.push_back(event.note()); }
  void OnLogLine(const std::string& line) override { words.push_back(line); }
  std::vector<std::string> words;
};

TEST_F(ProgressFileTest, MissingDirectoryIsNotedOnceAndEventsAreForwarded) {
  Words next;
  ProgressLog log(directory() + "/missing", next);
  log.OnEvent(Note("a"));
  EXPECT_THAT(next.words, ElementsAre(HasSubstr("progress.jsonl ends here"), "a"));
}

TEST_F(ProgressFileTest, LinesOfLogsAreForwardedAndNotWritten) {
  Words next;
  ProgressLog log(directory(), next);
  log.OnLogLine("[worker 1 on slave1] hello");
  log.OnEvent(Note("saved"));
  EXPECT_THAT(next.words, ElementsAre("[worker 1 on slave1] hello", "saved"));
  EXPECT_THAT(Read(), ElementsAre("restart", "note saved"));
}

TEST(ThinLinesTest, FrequentKindsOfEventsAreLeftOutBeforeRareKinds) {
  std::string lines;
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&lines, i % 10 == 0 ? "{\"epoch\":{}}\n" : "{\"pulse\":{}}\n");
  }
  const std::string thinned = ThinLines(lines, 600);
  EXPECT_LE(thinned.size(), 600);
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(thinned, "epoch")).size(), 11);
}

TEST(ThinLinesTest, AlternatingPulsesAndProgressAreThinnedAlike) {
  std::string lines;
  for (int i = 0; i < 400; ++i) absl::StrAppend(&lines, "{\"progress\":{}}\n{\"pulse\":{}}\n");
  for (const std::string& begin : {std::string(), std::string("{\"pulse\":{}}\n")}) {
    const std::string thinned = ThinLines(begin + lines, 3000);
    EXPECT_LE(thinned.size(), 3000);
    const std::string older = thinned.substr(0, 1300);
    EXPECT_GT(std::vector<std::string>(absl::StrSplit(older, "progress")).size(), 30);
    EXPECT_GT(std::vector<std::string>(absl::StrSplit(older, "pulse")).size(), 30);
  }
}

TEST(ThinLinesTest, NotesAreThinnedIfThereAreOnlyNotes) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&lines, "{\"note\":\"", i, "\"}\n");
  const std::string thinned = ThinLines(lines, 1000);
  EXPECT_LE(thinned.size(), 1000);
  EXPECT_THAT(thinned, HasSubstr("{\"note\":\"999\"}\n"));
}

}  // namespace
}  // namespace tethys
