#include "workers/segment_pause.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace tethys {
namespace {

// Delivers the orders it holds; Receive without an order is a broken session.
class ScriptedSession final : public TaskSession {
 public:
  void Pause(int64_t run = 1) { orders_.emplace_back().mutable_pause()->set_run(run); }
  void Cut(int64_t steps) {
    proto::Cut& cut = *orders_.emplace_back().mutable_cut();
    cut.set_run(1);
    cut.set_steps(steps);
  }
  void Stop() { orders_.emplace_back().mutable_stop()->set_reason("enough"); }
  const std::vector<int64_t>& answers() const { return answers_; }

  absl::Status status() override { return absl::OkStatus(); }
  void Send(proto::FromTask message) override { answers_.push_back(message.pausing().steps()); }
  absl::StatusOr<proto::ToTask> Receive() override {
    if (orders_.empty()) return absl::UnavailableError("nothing to receive");
    proto::ToTask order = orders_.front();
    orders_.pop_front();
    return order;
  }
  absl::StatusOr<absl::optional<proto::ToTask>> Poll() override {
    if (orders_.empty()) return absl::optional<proto::ToTask>();
    return absl::optional<proto::ToTask>(*Receive());
  }
  void StartBeating(Nanoseconds, Fill) override {}
  void Beat() override {}
  void BeatSoon() override {}
  bool peers_compute() const override { return false; }
  absl::Status ReadCheckpoint(int, int64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status WriteCheckpoint(int64_t, Source) override { return absl::OkStatus(); }
  void Close() override {}

 private:
  std::deque<proto::ToTask> orders_;
  std::vector<int64_t> answers_;
};

// A segment of five steps.
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

  ScriptedSession session_;
  SegmentPause pause_{Run(), 5, session_};
};

TEST_F(SegmentPauseTest, NoPause_AllStepsAreMade) {
  for (int64_t done = 0; done < 5; ++done) EXPECT_TRUE(GoesOn(done));
  EXPECT_FALSE(GoesOn(5));
}

TEST_F(SegmentPauseTest, Pause_OneMoreStepIsMadeBeforeTheCut) {
  session_.Pause();
  EXPECT_TRUE(GoesOn(2));
  EXPECT_EQ(session_.answers(), (std::vector<int64_t>{3}));
  session_.Cut(4);
  EXPECT_TRUE(GoesOn(3));
  EXPECT_FALSE(GoesOn(4));
}

TEST_F(SegmentPauseTest, CutAtTheAnswer_EndsTheSegmentThere) {
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

TEST_F(SegmentPauseTest, StopOrBrokenSessionWhileItWaits_IsAnError) {
  session_.Pause();
  EXPECT_TRUE(GoesOn(0));
  EXPECT_TRUE(absl::IsUnavailable(pause_.GoesOn(1).status()));
  session_.Stop();
  EXPECT_TRUE(absl::IsAborted(pause_.GoesOn(1).status()));
}

TEST_F(SegmentPauseTest, OrdersOutsideOfThePause_AreRefused) {
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
