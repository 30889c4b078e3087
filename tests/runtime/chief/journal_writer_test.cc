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

}  // namespace
}  // namespace tethys
