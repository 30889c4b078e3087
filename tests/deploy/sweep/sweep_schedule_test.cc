#include "deploy/sweep/sweep_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "deploy/sweep/batch_range.h"
#include "deploy/sweep/largest_batch.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

proto::StepVisit Visit(int64_t batch, double step, double began, bool disturbed = false) {
  proto::StepVisit visit;
  visit.set_batch(batch);
  visit.set_steps(5);
  visit.set_step(step);
  visit.set_forward(step / 2);
  visit.add_ready(step / 2);
  visit.set_began(began);
  visit.set_disturbed(disturbed);
  return visit;
}

TEST(SweepScheduleTest, EveryRoundVisitsEveryBatchInAnotherOrder) {
  SweepSchedule schedule({1, 2, 3, 4, 5, 6}, {.rounds = 3, .seed = 1});
  std::vector<int64_t> order;
  std::map<int64_t, int> count;
  int at = 0;
  while (const std::optional<int64_t> batch = schedule.Next()) {
    order.push_back(*batch);
    ++count[*batch];
    schedule.Add(Visit(*batch, 1, at++));
  }
  EXPECT_EQ(schedule.rounds(), 3);
  EXPECT_THAT(order, SizeIs(20)) << "two visits more of the reference";
  for (const int64_t batch : {1, 2, 3, 5, 6}) EXPECT_EQ(count[batch], 3);
  EXPECT_EQ(count[4], 5);
  EXPECT_NE(std::vector<int64_t>(order.begin(), order.begin() + 6),
            std::vector<int64_t>(order.begin() + 7, order.begin() + 13));
  EXPECT_THAT(schedule.BatchTimes(), SizeIs(6));
  EXPECT_EQ(schedule.BatchTimes()[3].visits(), 3);
}

TEST(SweepScheduleTest, RoundsAreAddedWhileManyVisitsAreDisturbed) {
  SweepSchedule schedule({1, 2, 3}, {.rounds = 5, .most_rounds = 9, .seed = 1});
  int at = 0;
  while (const std::optional<int64_t> batch = schedule.Next())
    schedule.Add(Visit(*batch, 1, at, at % 2 == 0)), ++at;
  EXPECT_EQ(schedule.rounds(), 9);
  EXPECT_GT(schedule.disturbed(), 0);
}

TEST(SweepScheduleTest, DisturbedVisitsCountOnlyIfABatchHasNoOtherVisits) {
  SweepSchedule schedule({1, 2}, {.rounds = 4, .most_rounds = 4, .seed = 1});
  int at = 0;
  while (const std::optional<int64_t> batch = schedule.Next()) {
    const bool first = schedule.rounds() == 0;
    schedule.Add(Visit(*batch, *batch == 2 ? 7 : first ? 1 : 5, ++at, *batch == 2 || !first));
  }
  const std::vector<proto::BatchTime> times = schedule.BatchTimes();
  EXPECT_DOUBLE_EQ(times[0].step(), 1);
  EXPECT_DOUBLE_EQ(times[1].step(), 7);
  EXPECT_DOUBLE_EQ(times[1].ready(0), 3.5);
  EXPECT_EQ(times[1].disturbed(), 4);
}

TEST(SweepScheduleTest, SlowDriftOfTheMachineIsDividedOut) {
  std::vector<int64_t> batches;
  for (int i = 1; i <= 40; ++i) batches.push_back(i);
  SweepSchedule schedule(batches, {.rounds = 10, .seed = 2});
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  int at = 0;
  while (const std::optional<int64_t> batch = schedule.Next()) {
    const double drift = at < 200 ? 1 : 1.3;  // From visit 200 on, the processor is slower.
    schedule.Add(Visit(*batch, (1 + *batch) * drift * std::exp(0.005 * normal(random)), at));
    ++at;
  }
  const RoundTimes times = schedule.Times([](const proto::StepVisit& visit) { return visit.step(); });
  double worst = 0;
  for (size_t i = 0; i < 40; ++i) {
    double least = 1e9, most = 0;
    for (const std::vector<double>& round : times.time) {
      if (round[i] > 0) least = std::min(least, round[i]), most = std::max(most, round[i]);
    }
    worst = std::max(worst, most / least);
  }
  EXPECT_LT(worst, 1.32) << "only visits at the change itself may be off";
  const std::vector<proto::BatchTime> found = schedule.BatchTimes();
  for (size_t i = 1; i < 40; ++i) {
    const double ratio = found[i].step() / found[0].step();
    EXPECT_NEAR(ratio, (2.0 + static_cast<double>(i)) / 2, 0.02 * ratio);
  }
}

TEST(SweepScheduleTest, SkippedBatchIsVisitedNoMore) {
  SweepSchedule schedule({1, 2}, {.rounds = 2, .seed = 1});
  int visits = 0;
  while (const std::optional<int64_t> batch = schedule.Next()) {
    if (*batch == 1) {
      schedule.Skip(1, "too small");
    } else {
      schedule.Add(Visit(2, 1, ++visits));
    }
  }
  EXPECT_EQ(visits, 2);
  ASSERT_THAT(schedule.skipped(), SizeIs(1));
  EXPECT_EQ(schedule.skipped()[0].reason(), "too small");
  EXPECT_THAT(schedule.BatchTimes(), SizeIs(1));
  SweepSchedule none({5}, {.rounds = 2, .seed = 1});
  none.Skip(*none.Next(), "memory");
  EXPECT_EQ(none.Next(), std::nullopt);
}

TEST(ParseBatchesTest, ReadsRangesStepsAndNumbers) {
  EXPECT_THAT(*ParseBatches("2-5"), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*ParseBatches("1-10:4,64,3-3"), ElementsAre(1, 3, 5, 9, 64));
  EXPECT_EQ(BatchesText(*ParseBatches("1-70")), "1 to 70");
  EXPECT_EQ(BatchesText(*ParseBatches("1-70:4")), "1 to 69 by 4");
  EXPECT_EQ(BatchesText({8, 16}), "8, 16");
  EXPECT_EQ(BatchesText({1, 2, 4, 8}), "4 batches from 1 to 8");
}

TEST(ParseBatchesTest, EmptyAndReversedRangesAreRefused) {
  EXPECT_THAT(ParseBatches("70-1").status().message(), HasSubstr("'70-1' is empty, because 1 is below 70"));
  for (const char* text : {"", ",", "0", "0-5", "-3", "1-", "1-x", "a", "1-5:0", "1-5:", "1-5:x", "5,,6",
                           "1-9999999999", "1-100000"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseBatches(text).status())) << text;
  }
  EXPECT_THAT(ParseBatches("1-100000").status().message(), HasSubstr("1-100000:1000"));
}

struct Search {
  LargestFit found;
  int64_t largest_tried = 0;
};
Search SearchFor(int64_t truth, int64_t forecast, int64_t most = 1 << 30) {
  Search search;
  const auto tries = [&](int64_t batch) -> absl::StatusOr<bool> {
    search.largest_tried = std::max(search.largest_tried, batch);
    return batch <= truth;
  };
  search.found = *FindLargestBatch(forecast, most, tries, [] { return true; });
  return search;
}

TEST(FindLargestBatchTest, LargestBatchIsFoundDespiteAWrongForecast) {
  for (const int64_t truth : {1, 7, 100, 12345}) {
    for (const double off : {0.3, 0.95, 1.0, 1.04, 2.0}) {
      const auto forecast = std::max<int64_t>(1, std::llround(static_cast<double>(truth) * off));
      const Search search = SearchFor(truth, forecast);
      EXPECT_TRUE(search.found.exact()) << truth << " " << off;
      EXPECT_LE(search.found.fits, truth);
      EXPECT_GE(search.found.fits, truth - 1 - truth / 50) << off;
      EXPECT_LE(search.found.tries, 14);
    }
  }
  EXPECT_LE(SearchFor(1000, 1000).found.tries, 2);
  EXPECT_LE(SearchFor(1000, 1000).largest_tried, 1020);
}

TEST(FindLargestBatchTest, FindsZeroIfNoBatchFitsAndTheLimitIfAllFit) {
  EXPECT_EQ(SearchFor(0, 5).found.fits, 0);
  EXPECT_EQ(SearchFor(1000, 5, 64).found.fits, 64);
}

TEST(FindLargestBatchTest, ErrorOfATryEndsTheSearchAndIsReturned) {
  const auto fails = [](int64_t) -> absl::StatusOr<bool> { return absl::UnavailableError("gone"); };
  EXPECT_TRUE(absl::IsUnavailable(FindLargestBatch(5, 9, fails, [] { return true; }).status()));
}

}  // namespace
}  // namespace tethys
