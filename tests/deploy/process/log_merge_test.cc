#include "deploy/process/log_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <utility>
#include <vector>

#include "deploy/process/log_line.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LogMergeTest : public ::testing::Test {
 protected:
  void Append(const std::string& file, const std::string& text) {
    std::ofstream(directory_.Path(file), std::ios::app | std::ios::binary) << text;
  }
  // A line as TETHYS_LOG writes it; `second` is the second of its time.
  static std::string At(const std::string& second, const std::string& text) {
    return "I 2026-11-21T12:34:" + second + ".500 file.cc:12] " + text + "\n";
  }
  // The lines shown by this call, without their times and their positions in the source.
  std::vector<std::string> NewLines(bool ended = false) {
    EXPECT_TRUE(merge_.AddFolder(directory_.path()).ok());
    EXPECT_TRUE(merge_.ShowNew(ended).ok());
    for (std::string& line : shown_) {
      const size_t time = line.find("I 2026");
      if (time != std::string::npos) line.erase(time, line.find("] ", time) + 2 - time);
    }
    return std::exchange(shown_, {});
  }

  testing::TempDirectory directory_;
  std::vector<std::string> shown_;
  LogMerge merge_{[this](const std::string& line) { shown_.push_back(line); }};
};

TEST_F(LogMergeTest, LinesOfAllLogsAreInOrderOfTime) {
  Append("worker-3.log", At("01", "a") + At("04", "d"));
  Append("ps-0.log", At("02", "b"));
  Append("chief-0.log", At("03", "c"));
  Append("notes.txt", "no log\n");
  EXPECT_THAT(NewLines(), ElementsAre("[worker 3] a", "[ps 0] b", "[chief] c", "[worker 3] d"));
  EXPECT_THAT(NewLines(), IsEmpty());
}

TEST_F(LogMergeTest, LineWithoutTimeFollowsTheLineBeforeIt) {
  Append("worker-0.log", At("01", "error:") + "  a trace\n" + At("03", "end"));
  Append("worker-1.log", At("02", "other"));
  EXPECT_THAT(NewLines(),
              ElementsAre("[worker 0] error:", "[worker 0]   a trace", "[worker 1] other", "[worker 0] end"));
}

TEST_F(LogMergeTest, LinesWhoseClockWentBackKeepTheirOrderWithinTheLog) {
  Append("worker-0.log", At("05", "a") + At("01", "b"));
  Append("worker-1.log", At("03", "c"));
  EXPECT_THAT(NewLines(), ElementsAre("[worker 1] c", "[worker 0] a", "[worker 0] b"));
}

TEST_F(LogMergeTest, NewLinesAndLinesOfNewLogsAreShownOnce) {
  Append("chief-0.log", At("01", "a"));
  EXPECT_THAT(NewLines(), ElementsAre("[chief] a"));
  Append("chief-0.log", At("03", "c"));
  Append("worker-0.log", At("02", "b"));
  EXPECT_THAT(NewLines(), ElementsAre("[worker 0] b", "[chief] c"));
}

TEST_F(LogMergeTest, IncompleteLineIsShownOnceItIsCompleteOrTheRunHasEnded) {
  Append("chief-0.log", "first, sec");
  EXPECT_THAT(NewLines(), IsEmpty());
  Append("chief-0.log", "ond\nthi");
  EXPECT_THAT(NewLines(), ElementsAre("[chief] first, second"));
  EXPECT_THAT(NewLines(/*ended=*/true), ElementsAre("[chief] thi"));
}

TEST_F(LogMergeTest, EndlessLineIsShownInPiecesOfBoundedSize) {
  Append("chief-0.log", std::string(3 * LogMerge::kMaxLineBytes, 'x') + "\nend\n");
  const std::vector<std::string> lines = NewLines();
  EXPECT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines.back(), "[chief] end");
}

TEST_F(LogMergeTest, PipeInPlaceOfALogIsRefused) {
  ASSERT_EQ(mkfifo(directory_.Path("worker-0.log").c_str(), 0600), 0);
  EXPECT_EQ(merge_.AddFolder(directory_.path()).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LogMergeTest, MissingFolderHasNoLogs) {
  EXPECT_TRUE(merge_.AddFolder(directory_.Path("nowhere")).ok());
  EXPECT_EQ(merge_.logs(), 0);
}

TEST(LogLineTest, OnlyLinesInTheLogsFormatHaveATime) {
  EXPECT_EQ(LogLineTime("W 2026-11-21T12:34:56.789 a.cc:1] x"), "2026-11-21T12:34:56.789");
  for (const char* other : {"", "I 2026-11-21T12:34:56.789", "X 2026-11-21T12:34:56.789 a",
                            "E1125 12:34:56.789 a.cc:1] x", "I 2026-11-21 12:34:56.789 a.cc:1] x"}) {
    EXPECT_EQ(LogLineTime(other), "") << other;
  }
}

TEST(LogLineTest, ControlCharactersAreNotShown) {
  EXPECT_EQ(ShownLogLine("worker 0", "a\x1b[31mb\tc\r"), "[worker 0] a?[31mb\tc");
}

}  // namespace
}  // namespace tethys
