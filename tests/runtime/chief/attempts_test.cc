#include "runtime/chief/attempts.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

void Add(int64_t first_step, int64_t end_step, double seconds, Attempts& attempts) {
  proto::Attempt& attempt = *attempts.Add();
  attempt.set_first_step(first_step);
  attempt.set_end_step(end_step);
  attempt.set_total_seconds(seconds);
}

TEST(AttemptsTest, WithoutARunSummary_EarlierAttemptsComeFromTheCheckpoint) {
  proto::TrainingState state;
  state.set_step(8);
  Add(0, 8, 3, *state.mutable_attempt());
  const Attempts earlier = EarlierAttempts(state, absl::nullopt);
  ASSERT_EQ(earlier.size(), 1);
  EXPECT_EQ(earlier[0].end_step(), 8);
  EXPECT_DOUBLE_EQ(TotalSeconds(earlier), 3);
}

TEST(AttemptsTest, RunSummary_AddsTheTimeOfAttemptsAfterTheCheckpoint) {
  proto::TrainingState state;
  state.set_step(8);
  Add(0, 8, 3, *state.mutable_attempt());
  proto::RunSummary summary;
  Add(0, 12, 5, *summary.mutable_attempt());
  Add(8, 11, 2, *summary.mutable_attempt());
  const Attempts earlier = EarlierAttempts(state, summary);
  ASSERT_EQ(earlier.size(), 2) << "the second saved nothing, but it took time";
  EXPECT_EQ(earlier[0].end_step(), 8) << "the updates after it are undone";
  EXPECT_EQ(earlier[1].first_step(), 8);
  EXPECT_EQ(earlier[1].end_step(), 8);
  EXPECT_DOUBLE_EQ(TotalSeconds(earlier), 7);
}

TEST(AttemptsTest, LastAttempt_RecordsItsEndingAndTheNumberOfStepsThatAreRepeated) {
  proto::TrainingState state;
  state.set_step(8);
  proto::RunSummary summary;
  Add(0, 5, 5, *summary.mutable_attempt());
  Add(5, 11, 2, *summary.mutable_attempt());
  summary.set_ending("ps 0 was killed");
  Attempts earlier = EarlierAttempts(state, summary);
  EXPECT_EQ(earlier[0].ending(), "");
  EXPECT_EQ(earlier[0].steps_again(), 0);
  EXPECT_EQ(earlier[1].ending(), "ps 0 was killed");
  EXPECT_EQ(earlier[1].steps_again(), 3);

  *summary.mutable_attempt() = earlier;
  Add(8, 20, 2, *summary.mutable_attempt());
  state.set_step(6);
  earlier = EarlierAttempts(state, summary);
  EXPECT_EQ(earlier[1].steps_again(), 3 + 2) << "the third attempt made steps 6 and 7 again";
  EXPECT_EQ(earlier[2].steps_again(), 12);
}

TEST(AttemptsTest, LastAttemptOfAKilledChief_EndsAtTheStepOfTheCheckpoint) {
  proto::TrainingState state;
  state.set_step(20);
  proto::RunSummary summary;
  Add(0, 0, 1, *summary.mutable_attempt());
  EXPECT_EQ(EarlierAttempts(state, summary)[0].end_step(), 20);
}

TEST(AttemptsTest, RunSummaryOlderThanTheCheckpoint_IsIgnored) {
  proto::TrainingState state;
  state.set_step(8);
  Add(0, 4, 3, *state.mutable_attempt());
  Add(4, 8, 2, *state.mutable_attempt());
  proto::RunSummary summary;
  Add(0, 4, 3, *summary.mutable_attempt());
  EXPECT_EQ(EarlierAttempts(state, summary).size(), 2);
}

TEST(AttemptsTest, NewAttempt_RecordsStrategyWorkersAndServersOfThePlan) {
  const proto::Attempt attempt =
      NewAttempt(Plan("workers: 2 strategy { parameter_server { servers: 3 } }"), 7);
  EXPECT_EQ(attempt.strategy(), "ps_sync");
  EXPECT_EQ(attempt.workers(), 2);
  EXPECT_EQ(attempt.servers(), 3);
  EXPECT_EQ(attempt.global_batch_size(), 10);
  EXPECT_EQ(attempt.first_step(), 7);
  EXPECT_EQ(attempt.end_step(), 7);
}

}  // namespace
}  // namespace tethys
