#include "workers/segment_pause.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/workers/scripted_session.h"

namespace tethys {
namespace {

class PauseSession final : public testing::ScriptedSession {
 public:
  void Pause(int64_t run = 1) { Add().mutable_pause()->set_run(run); }
  void Cut(int64_t steps) {
    proto::Cut& cut = *Add().mutable_cut();
    cut.set_run(1);
    cut.set_steps(steps);
  }
  std::vector<int64_t> answers() const {
    std::vector<int64_t> steps;
    for (const proto::FromTask& message : sent()) steps.push_back(message.pausing().steps());
    return steps;
  }
};

// A segment of five steps, which the chief may pause and then cut short.
class SegmentPauseTest : public ::testing::Test {
 protected:
  static proto::Run Run() {
    proto::Run run;
    run.set_number(1);
    return run;
  }
  bool GoesOn(int64_t done) {
    const absl::StatusOr<bool> goes_on = pause_.GoesOn(done);
    EXPECT_TRUE(goes_on.ok()) << goes_on.status();
    return goes_on.value_or(false);
  }

  PauseSession session_;
  SegmentPause pause_{Run(), 5, session_};
};

TEST_F(SegmentPauseTest, NoPause_AllStepsAreMade) {
  for (int64_t done = 0; done < 5; ++done) EXPECT_TRUE(GoesOn(done));
  EXPECT_FALSE(GoesOn(5));
}

TEST_F(SegmentPauseTest, Pause_AnswersWithOneMoreStepAndGoesOnUntilTheCut) {
  session_.Pause();
  EXPECT_TRUE(GoesOn(2));
  EXPECT_EQ(session_.answers(), (std::vector<int64_t>{3}));
  session_.Cut(4);
  EXPECT_TRUE(GoesOn(3));
  EXPECT_FALSE(GoesOn(4));
}

TEST_F(SegmentPauseTest, FurtherPause_MovesTheWaitByOneStep) {
  session_.Pause();
  EXPECT_TRUE(GoesOn(2));
  session_.Pause();
  EXPECT_TRUE(GoesOn(3)) << "the second Pause asks for a step more";
  session_.Pause();
  session_.Cut(5);
  EXPECT_TRUE(GoesOn(4));
  EXPECT_FALSE(GoesOn(5));
  EXPECT_EQ(session_.answers(), (std::vector<int64_t>{3, 4, 5}));
}

TEST_F(SegmentPauseTest, CutAtAnsweredStep_EndsTheSegmentThere) {
  session_.Pause();
  EXPECT_TRUE(GoesOn(2));
  session_.Cut(3);
  EXPECT_FALSE(GoesOn(3));
}

TEST_F(SegmentPauseTest, PauseAtTheEnd_AnswersWithAllSteps) {
  session_.Pause();
  session_.Cut(5);
  EXPECT_FALSE(GoesOn(5));
  EXPECT_EQ(session_.answers(), (std::vector<int64_t>{5}));
}

TEST_F(SegmentPauseTest, StopOrBrokenSessionDuringAPause_IsAnError) {
  session_.Pause();
  EXPECT_TRUE(GoesOn(0));
  EXPECT_TRUE(absl::IsUnavailable(pause_.GoesOn(1).status()));
  session_.Stop();
  EXPECT_TRUE(absl::IsAborted(pause_.GoesOn(1).status()));
}

TEST_F(SegmentPauseTest, OrdersThatDoNotFitTheSegment_AreRefused) {
  session_.Cut(3);
  EXPECT_TRUE(absl::IsInternal(pause_.GoesOn(0).status())) << "a cut that was not asked for";
  session_.Pause(2);
  EXPECT_TRUE(absl::IsInternal(pause_.GoesOn(0).status())) << "another segment's pause";
  session_.Pause();
  session_.Cut(0);
  EXPECT_TRUE(absl::IsInternal(pause_.GoesOn(0).status())) << "a cut before what it has made";
}

}  // namespace
}  // namespace tethys
