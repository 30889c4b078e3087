// Tests the answers of the live view to requests for the state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/live/expectation_file.h"
#include "deploy/live/live_server.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LivePagesTest : public ::testing::Test {
 protected:
  LivePagesTest() {
    AddPoint(1);
    AddPoint(2);
  }
  // Adds an event with a point of the curve.
  void AddPoint(int step) const {
    std::ofstream(directory_.Path(kProgressFile), std::ios::app)
        << R"({"progress":{"epoch_samples_done":"1","step":")" << step << "\"}}\n";
  }
  // Adds the events of an attempt of ten seconds whose one worker makes ten steps a second.
  void AddAttempt() const {
    std::ofstream events(directory_.Path(kProgressFile), std::ios::app);
    events << "{\"listening\":{}}\n";
    for (int second = 1; second <= 10; ++second) {
      events << R"({"pulse":{"seconds":)" << second << R"(,"step_bucket":[")" << 10 * second
             << R"("],"step_seconds_sum":)" << second << R"(,"task":[{"role":"worker","state":"RUNNING"}]}})"
             << "\n";
    }
  }
  std::string Ask(const std::string& target) {
    return pages_.Answer(ParseHttpRequest(absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: 127.0.0.1:80\r\n",
                                                       "Authorization: Bearer secret\r\n\r\n")),
                         "nonce");
  }
  static std::string MarkIn(const std::string& answer) {
    std::smatch found;
    return std::regex_search(answer, found, std::regex("\"mark\":\"([0-9.]+)\"")) ? found[1].str() : "";
  }

  const testing::TempDirectory directory_;
  WatchedRun run_{directory_.path(), "job"};
  LivePages pages_{run_, "secret", 80, ""};
};

TEST_F(LivePagesTest, RequestWithAMarkGetsOnlyPointsAndEpochsAddedSinceTheMark) {
  const std::string whole = Ask("/state.json");
  EXPECT_THAT(whole, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\"step\":\"1\"")));
  AddPoint(3);
  const std::string part = Ask("/state.json?since=" + MarkIn(whole));
  EXPECT_THAT(part, AllOf(HasSubstr("\"curve_begin\":1"),
                          HasSubstr("\"curve\":[{\"step\":\"2\"},{\"step\":\"3\"}]")));
}

TEST_F(LivePagesTest, MarkOfAnotherViewOrReplacedFileLeadsToWholeState) {
  WatchedRun other(directory_.path(), "job");
  const std::string foreign = other.StateSince({}).mark(), own = MarkIn(Ask("/state.json"));
  const std::string whole = "\"curve\":[{\"step\":\"1\"}";
  EXPECT_THAT(Ask("/state.json?since=" + own), Not(HasSubstr(whole)));
  EXPECT_THAT(Ask("/state.json?since=" + foreign), HasSubstr(whole));
  EXPECT_THAT(Ask("/state.json?since="), HasSubstr(whole));
  directory_.Write(kProgressFile, "");
  AddPoint(1);
  EXPECT_THAT(Ask("/state.json?since=" + own), HasSubstr(whole));
}

TEST_F(LivePagesTest, AttemptThatBeginsIsComparedWithItsOwnPrediction) {
  proto::Expectation expectation;
  proto::Estimate& rate = *expectation.mutable_prediction()->mutable_samples_per_second();
  for (const double value : {100, 200}) {
    rate.set_low(value);
    rate.set_value(value);
    rate.set_high(value);
    expectation.set_batch_per_worker(10);
    ASSERT_TRUE(WriteExpectation(directory_.path(), expectation).ok());
    AddAttempt();
    EXPECT_EQ(run_.StateSince({}).comparison().predicted().value(), value);
  }
  ASSERT_TRUE(WriteExpectation(directory_.path(), absl::nullopt).ok());
  AddAttempt();
  EXPECT_FALSE(run_.StateSince({}).predicted());
}

TEST_F(LivePagesTest, RunWhoseLauncherWasKilledIsShownAsEnded) {
  absl::optional<LeftRun> left;
  directory_.Write(kProgressFile, "{\"listening\":{}}\n");
  WatchedRun run(directory_.path(), "job", [&left] { return left; });
  EXPECT_EQ(run.StateSince({}).phase(), proto::LiveState::STARTING);
  EXPECT_THAT(run.JsonSince({}), Not(HasSubstr("was killed")));
  left = LeftRun{"its launcher was killed", "go on"};
  EXPECT_THAT(run.JsonSince({}),
              AllOf(HasSubstr("\"phase\":\"STOPPED\""), HasSubstr("its launcher was killed"),
                    HasSubstr("\"go_on\":\"go on\"")));
  left.reset();
  EXPECT_EQ(run.StateSince({}).phase(), proto::LiveState::STARTING) << "it was resumed";
}

TEST_F(LivePagesTest, BadMarkIsRefusedWithReason) {
  for (const char* since : {"x", "-1", "7", "1.2", "1.-2.3", "1.2.3.4"}) {
    EXPECT_THAT(Ask(absl::StrCat("/state.json?since=", since)),
                AllOf(StartsWith("HTTP/1.1 400 "),
                      HasSubstr("The parameter 'since' must be the field 'mark' of an earlier answer")))
        << since;
  }
}

// If the state were converted again, the new text would be made before the old text is freed, so the new text
// would have another address.
TEST_F(LivePagesTest, UnchangedStateIsConvertedToJsonOnlyOnce) {
  const char* text = run_.JsonSince({}).data();
  EXPECT_EQ(run_.JsonSince({}).data(), text);
  AddPoint(3);
  EXPECT_THAT(run_.JsonSince({}), HasSubstr("\"step\":\"3\""));
  EXPECT_THAT(run_.JsonSince({}), Not(HasSubstr("\"unreadable\"")));
  directory_.Write(kProgressFile, "{}\n{}\n{}\n");
  EXPECT_THAT(run_.JsonSince({}), HasSubstr("\"unreadable\":\"3\""));
}

}  // namespace
}  // namespace tethys
