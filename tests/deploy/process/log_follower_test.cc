#include "deploy/process/log_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <utility>
#include <vector>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogFollowerTest : public ::testing::Test {
 protected:
  void Append(const std::string& file, const std::string& text) {
    std::ofstream(directory_.Path(file), std::ios::app | std::ios::binary) << text;
  }
  void Follow(const std::string& file, const std::string& label) {
    ASSERT_TRUE(follower_.Follow(directory_.Path(file), label).ok());
  }

  std::vector<std::string> NewLines() {
    follower_.ShowNew();
    return std::exchange(shown_, {});
  }
  std::vector<std::string> LastLines() {
    follower_.ShowRest();
    return std::exchange(shown_, {});
  }

  testing::TempDirectory directory_;
  std::vector<std::string> shown_;
  LogFollower follower_{[this](const std::string& line) { shown_.push_back(line); }};
};

TEST_F(LogFollowerTest, EveryLineNamesItsProcess) {
  Follow("a", "worker 3 on slave2");
  Follow("b", "ps 0 on slave8");
  Append("a", "one\ntwo\n");
  Append("b", "three\n");
  EXPECT_THAT(NewLines(),
              ElementsAre("[worker 3 on slave2] one", "[worker 3 on slave2] two", "[ps 0 on slave8] three"));
  EXPECT_THAT(NewLines(), IsEmpty());
}

TEST_F(LogFollowerTest, IncompleteLineWaitsForNewline) {
  Follow("a", "chief");
  Append("a", "first, sec");
  EXPECT_THAT(NewLines(), IsEmpty());
  Append("a", "ond\nthi");
  EXPECT_THAT(NewLines(), ElementsAre("[chief] first, second"));
  EXPECT_THAT(LastLines(), ElementsAre("[chief] thi"));
}

TEST_F(LogFollowerTest, LinesOfEarlierAttemptAreNotShown) {
  Append("a", "old\n");
  Follow("a", "chief");
  Append("a", "new\n");
  EXPECT_THAT(NewLines(), ElementsAre("[chief] new"));
}

TEST_F(LogFollowerTest, ReplacedProcessAppendsToTheSameFile) {
  Follow("a", "worker 1");
  Append("a", "first life\n");
  Follow("a", "worker 1");
  Append("a", "second life\n");
  EXPECT_THAT(NewLines(), ElementsAre("[worker 1] first life", "[worker 1] second life"));
}

TEST_F(LogFollowerTest, ControlCharactersAreReplaced) {
  Follow("a", "worker 1");
  Append("a", "\x1b[2J\tand\a \xc3\xbc\r\n");
  EXPECT_THAT(NewLines(), ElementsAre("[worker 1] ?[2J\tand? \xc3\xbc"));
}

TEST_F(LogFollowerTest, TooLongLineIsShownInPieces) {
  Follow("a", "w");
  Append("a", std::string(LogFollower::kMaxLineBytes + 1, 'x') + "\n");
  EXPECT_THAT(NewLines(), ElementsAre("[w] " + std::string(LogFollower::kMaxLineBytes, 'x'), "[w] x"));
}

TEST_F(LogFollowerTest, LongLogIsReadInPieces) {
  Follow("a", "w");
  const size_t lines = LogFollower::kMaxLookBytes;  // Lines have two bytes, so the log is read in two pieces.
  std::string text;
  for (size_t i = 0; i < lines; ++i) text += "x\n";
  Append("a", text);
  EXPECT_EQ(NewLines().size(), lines / 2);
  EXPECT_EQ(LastLines().size(), lines / 2);
}

TEST_F(LogFollowerTest, ErrorNamesTheLogThatCannotBeOpened) {
  const absl::Status status = follower_.Follow("/nowhere/log", "w");
  EXPECT_NE(status.message().find("/nowhere/log"), absl::string_view::npos);
}

TEST(LogTailTest, ShowsTheLastLines) {
  const testing::TempDirectory directory;
  const std::string path = directory.Write("log", "one\ntwo\nthree\n");
  EXPECT_EQ(LogTail(path, 2), "    two\n    three\n");
  EXPECT_EQ(LogTail(path, 9), "    one\n    two\n    three\n");
  directory.Write("log", "");
  EXPECT_EQ(LogTail(path, 2), "");
  EXPECT_EQ(LogTail(path + ".none", 2), "");
}

TEST(LogTailTest, LinesBeforeTheGivenByteOffsetAreLeftOut) {
  const testing::TempDirectory directory;
  const std::string path = directory.Write("log", "old\nnew\n");
  EXPECT_EQ(LogTail(path, 9, 4), "    new\n");
  EXPECT_EQ(LogTail(path, 9, 8), "");
}

TEST(LogTailTest, LinesThatRepeatTheReportedReason_AreLeftOut) {
  const testing::TempDirectory directory;
  const std::string path = directory.Write(
      "log", "I ready\nE FAILED_PRECONDITION: step 6: nan\n  at host b\nABORTED: step 6: nan\n");
  EXPECT_EQ(LogTail(path, 9, 0, "step 6: nan\n  at host b"), "    I ready\n");
  EXPECT_EQ(LogTail(path, 1, 0, "step 6: nan"), "      at host b\n");
  EXPECT_EQ(LogTail(directory.Write("log", "E step 6: nan\n"), 9, 0, "step 6: nan"), "");
}

}  // namespace
}  // namespace tethys
