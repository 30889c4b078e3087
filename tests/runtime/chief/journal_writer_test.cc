#include "runtime/chief/journal_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

class JournalWriterTest : public ::testing::Test {
 protected:
  // A chief that begins an attempt, writes `lines` and is lost.
  int64_t LoseChief(const std::string& lines) {
    const auto writer = JournalWriter::Begin(path_, "attempt\n");
    EXPECT_TRUE(writer.ok()) << writer.status();
    (*writer)->Add(lines);
    (*writer)->HandOn();
    return (*writer)->begin();
  }
  std::string File() { return *ReadFile(path_); }

  const testing::TempDirectory dir_;
  const std::string path_ = dir_.path() + "/journal";
};

TEST_F(JournalWriterTest, AttemptsFollowOneAnother) {
  EXPECT_EQ(LoseChief("a\n"), 8);
  EXPECT_EQ(LoseChief("b\n"), 18);
  EXPECT_EQ(File(), "attempt\na\nattempt\nb\n");
}

TEST_F(JournalWriterTest, LinesThatComeAgainAreNotWrittenTwice) {
  const int64_t begin = LoseChief("a\nb\n");
  const auto writer = JournalWriter::Continue(path_, begin);
  for (const char* const line : {"a\n", "b\n", "c\n", "d\n"}) {
    (*writer)->Add(line);
    (*writer)->HandOn();
    EXPECT_TRUE((*writer)->CheckRepeated(/*all=*/false).ok());
  }
  EXPECT_TRUE((*writer)->CheckRepeated(/*all=*/true).ok());
  EXPECT_TRUE((*writer)->Flush().ok());
  EXPECT_EQ(File(), "attempt\na\nb\nc\nd\n");
}

TEST_F(JournalWriterTest, LineThatTheLostChiefCutOffIsWrittenWhole) {
  const int64_t begin = LoseChief("a\n");
  ASSERT_TRUE(WriteFileAtomically(path_, File() + "b").ok());
  const auto writer = JournalWriter::Continue(path_, begin);
  (*writer)->Add("a\nbcd\n");
  (*writer)->HandOn();
  EXPECT_TRUE((*writer)->CheckRepeated(/*all=*/true).ok());
  EXPECT_TRUE((*writer)->Flush().ok());
  EXPECT_EQ(File(), "attempt\na\nbcd\n");
}

TEST_F(JournalWriterTest, OtherLinesThanThoseInTheFileAreAnError) {
  const int64_t begin = LoseChief("a\nb\n");
  const auto writer = JournalWriter::Continue(path_, begin);
  (*writer)->Add("a\nc\n");
  (*writer)->HandOn();
  EXPECT_TRUE(absl::IsDataLoss((*writer)->CheckRepeated(/*all=*/false)));
}

TEST_F(JournalWriterTest, LinesThatDoNotComeAgainAreAnErrorAtTheEnd) {
  const int64_t begin = LoseChief("a\nb\n");
  const auto writer = JournalWriter::Continue(path_, begin);
  (*writer)->Add("a\n");
  (*writer)->HandOn();
  EXPECT_TRUE((*writer)->CheckRepeated(/*all=*/false).ok());
  EXPECT_TRUE(absl::IsDataLoss((*writer)->CheckRepeated(/*all=*/true)));
}

TEST_F(JournalWriterTest, FileThatHasBecomeShorterIsAnError) {
  const int64_t begin = LoseChief("a\n");
  ASSERT_TRUE(WriteFileAtomically(path_, "att\n").ok());
  EXPECT_TRUE(absl::IsDataLoss(JournalWriter::Continue(path_, begin).status()));
}

// What a process that takes over has in common with a lost chief, whose state was saved after the lines a and
// b.
class SavedJournalTest : public JournalWriterTest {
 protected:
  SavedJournalTest() {
    const auto writer = JournalWriter::Begin(path_, "attempt\n");
    (*writer)->Add("a\n");
    EXPECT_TRUE((*writer)->Flush().ok());
    (*writer)->HandOn();
    (*writer)->Add("b\n");
    EXPECT_TRUE((*writer)->Save(saved_).ok());
    EXPECT_EQ(saved_.bytes() + saved_.unwritten().size(), 12);
    (*writer)->Add("c\nd\n");
    (*writer)->HandOn();
  }

  proto::AppendedState saved_;
};

TEST_F(SavedJournalTest, OnlyLaterLinesAreExpectedToComeAgain) {
  const auto writer = JournalWriter::Restore(path_, saved_);
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Add("c\nd\ne\n");
  (*writer)->HandOn();
  EXPECT_TRUE((*writer)->CheckRepeated(/*all=*/true).ok());
  EXPECT_TRUE((*writer)->Flush().ok());
  EXPECT_EQ(File(), "attempt\na\nb\nc\nd\ne\n");
}

TEST_F(SavedJournalTest, LinesThatTheLostChiefDidNotWrite_AreWritten) {
  ASSERT_TRUE(WriteFileAtomically(path_, File().substr(0, saved_.bytes())).ok());
  const auto writer = JournalWriter::Restore(path_, saved_);
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->HandOn();
  EXPECT_TRUE((*writer)->CheckRepeated(/*all=*/true).ok());
  EXPECT_TRUE((*writer)->Flush().ok());
  EXPECT_EQ(File(), "attempt\na\nb\n");
}

TEST_F(SavedJournalTest, StateIsRefused_WhileLinesAreExpected) {
  const auto writer = JournalWriter::Restore(path_, saved_);
  proto::AppendedState later;
  EXPECT_TRUE(absl::IsFailedPrecondition((*writer)->Save(later)));
  (*writer)->Add("c\nd\n");
  (*writer)->HandOn();
  ASSERT_TRUE((*writer)->Save(later).ok());
  EXPECT_EQ(later.bytes() + later.unwritten().size(), 16);
}

TEST_F(SavedJournalTest, ImpossibleLengthIsAnError) {
  saved_.set_bytes(17);
  EXPECT_TRUE(absl::IsDataLoss(JournalWriter::Restore(path_, saved_).status()));
  saved_.set_bytes(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(JournalWriter::Restore(path_, saved_).status()));
}

}  // namespace
}  // namespace tethys
