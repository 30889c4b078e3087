// Tests the state that the live view computes from events, and the metrics made from the state.
#include "deploy/live/live_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class LiveStateTest : public ::testing::Test {
 protected:
  void Listening() {
    proto::ProgressEvent event;
    event.mutable_listening();
    fold_.Add(event);
  }
  void Progress(int64_t step, double loss) {
    proto::ProgressEvent event;
    event.mutable_progress()->set_step(step);
    event.mutable_progress()->set_loss(loss);
    event.mutable_progress()->set_epoch_samples_done(1);
    fold_.Add(event);
  }
  void Epoch(int64_t number, bool validated = true) {
    proto::ProgressEvent event;
    event.mutable_epoch()->set_epoch(number);
    event.mutable_epoch()->set_validated(validated);
    fold_.Add(event);
  }
  // Adds a pulse (the chief's report on all tasks, about once a second) in which worker i has the compute
  // time compute[i], in seconds. 0 means that the worker made no step.
  void Pulse(double seconds, const std::vector<double>& compute, double out_rate = 0) {
    fold_.Add(PulseOf(seconds, compute, out_rate));
  }
  static proto::ProgressEvent PulseOf(double seconds, const std::vector<double>& compute,
                                      double out_rate = 0) {
    proto::ProgressEvent event;
    event.mutable_pulse()->set_seconds(seconds);
    for (const double time : compute) {
      proto::TaskPulse& task = *event.mutable_pulse()->add_task();
      task.set_role("worker");
      task.set_index(event.pulse().task_size() - 1);
      task.set_host("slave1");
      task.set_state(proto::TaskPulse::RUNNING);
      task.set_network_out_bytes_per_second(out_rate);
      if (time > 0) task.mutable_compute_seconds()->set_median(time);
    }
    return event;
  }
  std::vector<std::string> Health() const {
    std::vector<std::string> found;
    for (const proto::LiveTask& task : fold_.state().task()) found.push_back(task.health());
    return found;
  }
  std::vector<int64_t> CurveSteps() const {
    std::vector<int64_t> steps;
    const proto::LiveState state = fold_.StateSince({});
    for (const proto::CurvePoint& point : state.curve()) steps.push_back(point.step());
    return steps;
  }
  LiveFold fold_;
};

TEST_F(LiveStateTest, StopByTheUserIsShownAsStoppedWithTheAdviceOfTheLauncher) {
  proto::ProgressEvent event;
  proto::Finished& finished = *event.mutable_finished();
  finished.set_error("interrupted");
  finished.set_status_code(1);  // The status code of CANCELLED.
  fold_.Add(event);
  EXPECT_EQ(fold_.state().phase(), proto::LiveState::STOPPED);
  finished.set_interrupted(true);
  finished.set_error("stopped by Ctrl-C (SIGINT), at step 7");
  finished.set_go_on("go on from step 7");
  fold_.Add(event);
  EXPECT_EQ(fold_.state().phase(), proto::LiveState::STOPPED);
  EXPECT_EQ(fold_.state().error(), "stopped by Ctrl-C (SIGINT), at step 7");
  EXPECT_EQ(fold_.state().go_on(), "go on from step 7");
  Listening();
  EXPECT_EQ(fold_.state().go_on(), "") << "another attempt began";
  finished.set_status_code(14);
  finished.set_interrupted(false);
  fold_.Add(event);
  EXPECT_EQ(fold_.state().phase(), proto::LiveState::FAILED);
}

TEST_F(LiveStateTest, WorkerWithStepsFarAboveTheMedianIsSlowAfterTwentySeconds) {
  Pulse(1, {1, 1, 1.3});
  Pulse(20, {1, 1, 1.3});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "ok"));
  Pulse(21, {1, 1, 1.3});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "slow"));
  Pulse(22, {1, 1, 1.1});
  Pulse(23, {1, 1, 1.3});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "ok"));
}

TEST_F(LiveStateTest, WhenARunEndsWorkingTasksBecomeDoneAndSilentTasksLost) {
  proto::ProgressEvent event = PulseOf(1, {1, 1, 1});
  event.mutable_pulse()->mutable_task(1)->set_state(proto::TaskPulse::SILENT);
  event.mutable_pulse()->mutable_task(2)->set_state(proto::TaskPulse::LOST);
  fold_.Add(event);
  EXPECT_THAT(Health(), ElementsAre("ok", "silent", "lost"));
  event.mutable_finished()->set_ok(false);
  fold_.Add(event);
  EXPECT_THAT(Health(), ElementsAre("done", "lost", "lost"));
}

TEST_F(LiveStateTest, PulseWithoutStepsKeepsEarlierStepTimesOfTheWorkers) {
  Pulse(1, {1, 1, 2});
  Pulse(15, {1, 1, 0});
  Pulse(30, {1, 1, 0});
  EXPECT_THAT(Health(), ElementsAre("ok", "ok", "slow"));
  EXPECT_EQ(fold_.state().task(2).compute_ratio(), 2);
}

TEST_F(LiveStateTest, BytesAreSummedFromRatesButNotOverLongGaps) {
  Pulse(1, {1}, 100);
  Pulse(3, {1}, 50);
  EXPECT_EQ(fold_.state().task(0).bytes_out(), 200);
  Pulse(1000, {1}, 50);
  EXPECT_EQ(fold_.state().task(0).bytes_out(), 200);
}

TEST_F(LiveStateTest, LastLossIsKeptWhenANewEpochBegins) {
  Progress(10, 0.5);
  proto::ProgressEvent event;
  event.mutable_progress()->set_step(10);
  event.mutable_progress()->set_epoch(1);
  fold_.Add(event);
  EXPECT_EQ(fold_.state().progress().loss(), 0.5);
  EXPECT_EQ(fold_.state().progress().epoch(), 1);
  EXPECT_THAT(CurveSteps(), ElementsAre(10));
}

TEST_F(LiveStateTest, ResumedAttemptReplacesTheStepsThatItRepeats) {
  for (const int64_t step : {10, 20, 30}) Progress(step, 1);
  Pulse(5, {1, 1});
  Listening();
  EXPECT_EQ(fold_.state().task_size(), 0);
  Progress(20, 2);
  EXPECT_THAT(CurveSteps(), ElementsAre(10, 20));
  EXPECT_EQ(fold_.StateSince({}).curve(1).loss(), 2);
}

TEST_F(LiveStateTest, NewAttemptRemovesPointsAndEpochsAfterItsStart) {
  for (const int64_t step : {10, 20, 30}) Progress(step, 1);
  for (const int64_t epoch : {0, 1, 2}) Epoch(epoch);
  const LiveMark before = fold_.mark();
  proto::ProgressEvent event;
  event.mutable_started();  // Written by an old build, which did not say at which step the attempt began.
  fold_.Add(event);
  EXPECT_THAT(CurveSteps(), ElementsAre(10, 20, 30));
  event.mutable_started()->set_step(20);
  event.mutable_started()->set_epoch(1);
  fold_.Add(event);
  EXPECT_THAT(CurveSteps(), ElementsAre(10, 20));
  const proto::LiveState state = fold_.StateSince(before);
  ASSERT_EQ(state.epoch_size(), 1);
  EXPECT_EQ(state.epoch(0).epoch(), 0);
}

TEST_F(LiveStateTest, LongCurveIsThinnedAndKeepsItsEnds) {
  for (int64_t step = 1; step <= 100'000; ++step) Progress(step, 1);
  const std::vector<int64_t> steps = CurveSteps();
  EXPECT_LE(steps.size(), LiveFold::kMostPoints);
  EXPECT_GE(steps.size(), LiveFold::kMostPoints / 2);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 100'000);
  std::vector<int64_t> gaps;
  for (size_t i = 1; i + 1 < steps.size(); ++i) gaps.push_back(steps[i] - steps[i - 1]);
  const auto [least, most] = std::minmax_element(gaps.begin(), gaps.end());
  EXPECT_LT(*most, 2 * *least) << "the gaps are uneven";
}

TEST_F(LiveStateTest, ThinningManyEpochsKeepsManyValidatedEpochs) {
  for (int64_t epoch = 0; epoch < 10'000; ++epoch) Epoch(epoch, /*validated=*/epoch % 2 == 1);
  const proto::LiveState state = fold_.StateSince({});
  EXPECT_LE(state.epoch_size(), LiveFold::kMostEpochs);
  EXPECT_EQ(state.epoch(0).epoch(), 0);
  EXPECT_EQ(state.epoch(state.epoch_size() - 1).epoch(), 9999);
  const auto validated = std::count_if(state.epoch().begin(), state.epoch().end(),
                                       [](const proto::EpochResult& epoch) { return epoch.validated(); });
  EXPECT_GE(validated, LiveFold::kMostEpochs / 4);
}

// A page of the live view: requests the state with the mark of its last answer, and combines the answers.
class Reader {
 public:
  // Requests the state, merges the answer into the page's state, and returns the answer.
  proto::LiveState Ask(const LiveFold& fold) {
    const proto::LiveState answer = fold.StateSince(*ParseMark(state_.mark()));
    proto::LiveState next = answer;
    *next.mutable_curve() = {state_.curve().begin(), state_.curve().begin() + answer.curve_begin()};
    *next.mutable_epoch() = {state_.epoch().begin(), state_.epoch().begin() + answer.epoch_begin()};
    next.mutable_curve()->MergeFrom(answer.curve());
    next.mutable_epoch()->MergeFrom(answer.epoch());
    next.clear_curve_begin();
    next.clear_epoch_begin();
    state_ = std::move(next);
    return answer;
  }
  bool Has(const proto::LiveState& whole) const {
    return state_.SerializeAsString() == whole.SerializeAsString();
  }

 private:
  proto::LiveState state_;
};

TEST_F(LiveStateTest, IncrementalReaderAlwaysHasTheWholeState) {
  Reader often, rare;
  int64_t step = 0, epoch = 0;
  for (int i = 0; i < 4000; ++i) {
    if (i % 700 == 699) {  // An attempt begins, and repeats some steps and epochs.
      Listening();
      step -= 50 * (i / 700);  // The first of these attempts repeats no step.
      epoch -= 3 * (i / 700);
    }
    Progress(step, i);
    if (i % 3 != 0) step += 10;  // If i is a multiple of 3, the next progress is of the same step.
    Epoch(epoch, i % 2 == 0);
    epoch += i % 5 != 0;
    Pulse(i, {1, 1});
    if (i == 3000) fold_.Clear();
    often.Ask(fold_);
    ASSERT_TRUE(often.Has(fold_.StateSince({}))) << i;
    if (i % 97 != 0) continue;
    rare.Ask(fold_);
    ASSERT_TRUE(rare.Has(fold_.StateSince({}))) << i;
  }
}

TEST_F(LiveStateTest, AnswerToAMarkHasOnlyNewPointsAndEpochs) {
  Reader reader;
  for (int i = 1; i < 900; ++i) {
    Progress(i, 1);
    Epoch(i);
  }
  EXPECT_EQ(reader.Ask(fold_).curve_size(), 899);
  Progress(900, 1);
  Epoch(900);
  const proto::LiveState answer = reader.Ask(fold_);
  EXPECT_EQ(answer.curve_begin(), 898);
  EXPECT_EQ(answer.epoch_begin(), 898);
  // The answer contains the last of the earlier points, which might have been replaced, and the new point.
  EXPECT_EQ(answer.curve_size(), 2);
  EXPECT_EQ(answer.epoch_size(), 2);
}

TEST_F(LiveStateTest, MarkOfAnotherRunOrBeyondTheEndGivesWholeState) {
  fold_ = LiveFold(7);
  for (int i = 1; i < 10; ++i) Progress(i, 1);
  for (LiveMark mark : {LiveMark{8, 3, 0}, LiveMark{7, 10, 0}, LiveMark{7, 3, 1}}) {
    const proto::LiveState state = fold_.StateSince(mark);
    EXPECT_EQ(state.curve_begin(), 0) << MarkText(mark);
    EXPECT_EQ(state.curve_size(), 9) << MarkText(mark);
  }
  EXPECT_EQ(fold_.StateSince({7, 3, 0}).curve_size(), 6);
}

TEST_F(LiveStateTest, MarkBeforeThinningOrClearGivesWholeState) {
  const auto add = [this](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      Progress(i, 1);
      Epoch(i);
    }
  };
  add(0, 700);
  const LiveMark before_clear = fold_.mark();
  fold_.Clear();
  add(0, 800);
  EXPECT_EQ(fold_.StateSince(before_clear).epoch_begin(), 0);
  const LiveMark before_curve = fold_.mark();
  add(800, 1800);
  const proto::LiveState thinned_curve = fold_.StateSince(before_curve);
  // The size of the curve does not show that points were left out, because points were added, too.
  ASSERT_GT(thinned_curve.curve_size(), before_curve.points);
  EXPECT_EQ(thinned_curve.curve_begin(), 0);
  const LiveMark before_epochs = fold_.mark();
  for (int i = 1800; i < 2900; ++i) Epoch(i);
  const proto::LiveState thinned_epochs = fold_.StateSince(before_epochs);
  ASSERT_GT(thinned_epochs.epoch_size(), before_epochs.epochs);
  EXPECT_EQ(thinned_epochs.epoch_begin(), 0);
}

TEST(LiveMarkTest, MarkIsParsedBackFromItsText) {
  const LiveMark mark = {.generation = ~uint64_t{0}, .points = 999, .epochs = 2000};
  EXPECT_EQ(*ParseMark(MarkText(mark)), mark);
  EXPECT_EQ(*ParseMark(""), LiveMark());
}

TEST(LiveMarkTest, InvalidMarkIsRefused) {
  for (const char* text : {"1", "a", "1.2", "1.2.", ".2.3", "1.2.3.4", "-1.2.3", "1.-2.3", "+1.2.3", "1. 2.3",
                           "1.2.3x", "1.2147483648.3", "18446744073709551616.2.3", "%31.2.3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseMark(text).status())) << text;
  }
}

TEST_F(LiveStateTest, RunIsComparedWithItsExpectation) {
  proto::Expectation expectation;
  proto::Estimate& rate = *expectation.mutable_prediction()->mutable_samples_per_second();
  rate.set_value(100);
  rate.set_low(90);
  rate.set_high(110);
  expectation.set_batch_per_worker(10);
  proto::LinkRate& link = *expectation.add_link();
  link.set_host("slave1");
  link.set_bytes_per_second(400);
  fold_.Expect(expectation);
  for (int at = 1; at <= 10; ++at) {
    proto::ProgressEvent event = PulseOf(at, {0.1, 0.1}, 100);
    event.mutable_pulse()->add_step_bucket(10 * at);
    event.mutable_pulse()->set_step_seconds_sum(0.25 * 10 * at);
    fold_.Add(event);
  }
  EXPECT_THAT(fold_.state().comparison().text(), HasSubstr("20 % slower than predicted: 80 samples/s"));
  EXPECT_EQ(fold_.state().task(1).out_share(), 0.25);
  EXPECT_EQ(fold_.state().task(1).in_share(), 0);
  const std::string metrics = OpenMetricsText(fold_.state());
  EXPECT_THAT(metrics, HasSubstr("tethys_predicted_low_samples_per_second{job=\"\"} 90\n"));
  EXPECT_THAT(metrics, HasSubstr("host=\"slave1\",direction=\"out\"} 0.25\n"));
  Listening();
  EXPECT_FALSE(fold_.state().has_comparison());
}

TEST_F(LiveStateTest, AtMost64StalenessCountsOfTheNewestPulseAreKept) {
  proto::ProgressEvent event = PulseOf(1, {1});
  for (int i = 0; i < 100; ++i) event.mutable_pulse()->add_staleness_count(i);
  fold_.Add(event);
  EXPECT_EQ(fold_.state().staleness_count_size(), 64);
  event.mutable_pulse()->mutable_staleness_count()->Truncate(2);
  event.mutable_pulse()->set_seconds(2);
  fold_.Add(event);
  EXPECT_THAT(fold_.state().staleness_count(), ElementsAre(0, 1));
}

TEST_F(LiveStateTest, MetricsHaveCumulativeBucketsAndEscapedLabels) {
  proto::LiveState state;
  state.set_job("a\"b\\c\nd");
  for (const int64_t count : {1, 2, 4}) state.add_step_bucket(count);
  const std::string text = OpenMetricsText(state);
  EXPECT_THAT(text,
              HasSubstr("tethys_step_duration_seconds_bucket{job=\"a\\\"b\\\\c\\nd\",le=\"0.0001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("le=\"0.0002\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("le=\"+Inf\"} 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("le=\"0.0004\"")));
  EXPECT_THAT(text, ::testing::EndsWith("\n# EOF\n"));
}

TEST_F(LiveStateTest, MetricsHaveAllDigitsOfCounters) {
  proto::LiveState state;
  state.mutable_progress()->set_step(123456789);
  state.mutable_progress()->set_loss(0.1);
  const std::string text = OpenMetricsText(state);
  EXPECT_THAT(text, HasSubstr("tethys_steps_total{job=\"\"} 123456789\n"));
  EXPECT_THAT(text, HasSubstr("tethys_loss{job=\"\"} 0.1\n"));
}

TEST_F(LiveStateTest, LostWorkersAndServersAreCountedApart) {
  for (const std::string role : {"worker", "ps", "ps"}) {
    proto::ProgressEvent event;
    event.mutable_task_lost()->set_role(role);
    event.mutable_task_lost()->set_reason("lost a " + role);
    fold_.Add(event);
  }
  const proto::LiveState& state = fold_.state();
  EXPECT_THAT(state.note(), ElementsAre("lost a worker", "lost a ps", "lost a ps"));
  const std::string text = OpenMetricsText(state);
  EXPECT_THAT(text, HasSubstr("tethys_workers_lost_total{job=\"\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tethys_servers_lost_total{job=\"\"} 2\n"));
}

}  // namespace
}  // namespace tethys
