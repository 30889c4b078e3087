#include "runtime/chief/statistics_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::RunDone Done(int64_t steps, const std::vector<float>& statistics) {
  proto::RunDone done;
  done.set_steps(steps);
  done.mutable_statistics()->Assign(statistics.begin(), statistics.end());
  return done;
}

TEST(StatisticsBook, ModelWithoutStatisticsLeavesBookEmpty) {
  StatisticsBook book(2, {});
  EXPECT_TRUE(book.OnRunDone(0, Done(3, {})).ok());
  EXPECT_TRUE(book.OnRunDone(1, Done(3, {})).ok());
  book.Average();
  EXPECT_EQ(book.current(), MovingStatistics());
  EXPECT_THAT(book.StartOf(1), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(book.OnRunDone(0, Done(3, {1}))));
}

TEST(StatisticsBook, EveryWorkerBeginsWithTheInitialMean) {
  const StatisticsBook book(2, {.mean = {0, 1}});
  EXPECT_THAT(book.StartOf(0), ElementsAre(0, 1));
  EXPECT_THAT(book.StartOf(1), ElementsAre(0, 1));
}

TEST(StatisticsBook, MeanIsUnchangedUntilAverageIsCalled) {
  StatisticsBook book(1, {.mean = {1}});
  ASSERT_TRUE(book.OnRunDone(0, Done(1, {5})).ok());
  EXPECT_THAT(book.current().mean, ElementsAre(1));
  EXPECT_THAT(book.StartOf(0), ElementsAre(5));
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(5));
}

TEST(StatisticsBook, EqualStepsGiveTheUnweightedMeanBitForBit) {
  const std::vector<std::vector<float>> own = {{0.1f, 1e-30f}, {0.7f, 3e20f}, {-0.3f, 1.5f}};
  const std::vector<float> expected = {
      static_cast<float>((double{0.1f} + double{0.7f} + double{-0.3f}) / 3),
      static_cast<float>((double{1e-30f} + double{3e20f} + double{1.5f}) / 3)};
  StatisticsBook book(3, {.mean = {0, 1}});
  for (int run = 0; run < 20; ++run) {
    for (int worker = 0; worker < 3; ++worker) {
      ASSERT_TRUE(book.OnRunDone(worker, Done(run + 1, own[worker])).ok());
    }
    for (int i = 0; i < 3; ++i) {
      book.Average();
      EXPECT_EQ(book.current().mean, expected) << run;
      EXPECT_EQ(book.current().workers, own) << run;
    }
  }
}

TEST(StatisticsBook, MeanIsWeightedByTheStepsOfAllRuns) {
  StatisticsBook book(2, {.mean = {0, 0}});
  ASSERT_TRUE(book.OnRunDone(0, Done(1, {0, 8})).ok());
  ASSERT_TRUE(book.OnRunDone(1, Done(3, {4, 16})).ok());
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(3, 14));
  // Worker 0 has now made 1 + 8 = 9 steps, worker 1 has made 3. The mean uses only each worker's latest
  // statistics.
  ASSERT_TRUE(book.OnRunDone(0, Done(8, {8, 0})).ok());
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(7, 4));
}

TEST(StatisticsBook, WorkerWithoutStepsDoesNotCountInTheMean) {
  for (const int64_t steps : {0, -5}) {
    StatisticsBook book(2, {.mean = {1}});
    ASSERT_TRUE(book.OnRunDone(0, Done(2, {6})).ok());
    ASSERT_TRUE(book.OnRunDone(1, Done(steps, {100})).ok());
    book.Average();
    EXPECT_THAT(book.current().mean, ElementsAre(6)) << steps;
    EXPECT_THAT(book.current().workers, ElementsAre(ElementsAre(6), ElementsAre(100))) << steps;
  }
}

TEST(StatisticsBook, MeanIsUnchangedIfNoWorkerHasMadeSteps) {
  StatisticsBook book(2, {.mean = {1}});
  for (const int worker : {0, 1}) ASSERT_TRUE(book.OnRunDone(worker, Done(0, {9})).ok());
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(1));
}

TEST(StatisticsBook, StatisticsPerWorkerAreAbsentUntilAllWorkersHaveReported) {
  StatisticsBook book(2, {.mean = {1}});
  book.Average();
  EXPECT_THAT(book.current().workers, IsEmpty());
  ASSERT_TRUE(book.OnRunDone(1, Done(1, {5})).ok());
  book.Average();
  EXPECT_THAT(book.current().workers, IsEmpty());
  EXPECT_THAT(book.current().mean, ElementsAre(5));
  ASSERT_TRUE(book.OnRunDone(0, Done(1, {3})).ok());
  book.Average();
  EXPECT_THAT(book.current().workers, ElementsAre(ElementsAre(3), ElementsAre(5)));
}

TEST(StatisticsBook, LostWorkerLeavesTheMeanAndItsReplacementBeginsWithTheMean) {
  StatisticsBook book(2, {.mean = {0}});
  ASSERT_TRUE(book.OnRunDone(0, Done(1, {2})).ok());
  ASSERT_TRUE(book.OnRunDone(1, Done(5, {8})).ok());
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(7));
  book.OnLost(1);
  EXPECT_THAT(book.StartOf(0), ElementsAre(2));
  EXPECT_THAT(book.StartOf(1), ElementsAre(7));
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(2));
  EXPECT_THAT(book.current().workers, IsEmpty());
  EXPECT_THAT(book.StartOf(1), ElementsAre(2));
  // The number of steps of worker 1's replacement begins at 0.
  ASSERT_TRUE(book.OnRunDone(1, Done(3, {6})).ok());
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(5));
  EXPECT_THAT(book.current().workers, ElementsAre(ElementsAre(2), ElementsAre(6)));
}

TEST(StatisticsBook, MeanIsUnchangedIfEveryWorkerIsLost) {
  StatisticsBook book(1, {.mean = {0}});
  ASSERT_TRUE(book.OnRunDone(0, Done(4, {3})).ok());
  book.Average();
  book.OnLost(0);
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(3));
}

TEST(StatisticsBook, ResumeWithAsManyWorkersStartsFromTheStatisticsOfEachWorker) {
  const MovingStatistics saved = {.mean = {2}, .workers = {{1}, {3}}};
  StatisticsBook book(2, saved);
  EXPECT_THAT(book.StartOf(0), ElementsAre(1));
  EXPECT_THAT(book.StartOf(1), ElementsAre(3));
  book.Average();
  EXPECT_EQ(book.current(), saved) << "a save before the first step changes nothing";
}

TEST(StatisticsBook, ResumeWithAnotherNumberOfWorkersStartsFromTheMean) {
  const MovingStatistics saved = {.mean = {2}, .workers = {{1}, {3}}};
  for (const int workers : {1, 3}) {
    StatisticsBook book(workers, saved);
    for (int i = 0; i < workers; ++i) EXPECT_THAT(book.StartOf(i), ElementsAre(2)) << workers;
    book.Average();
    EXPECT_THAT(book.current().mean, ElementsAre(2)) << workers;
    EXPECT_THAT(book.current().workers, IsEmpty()) << workers;
  }
}

TEST(StatisticsBook, StatisticsOfAWrongSizeAreRefusedAndLeaveTheBookUnchanged) {
  StatisticsBook book(2, {.mean = {0, 1}});
  for (const std::vector<float>& values : {std::vector<float>(), {5}, {5, 5, 5}}) {
    const absl::Status status = book.OnRunDone(0, Done(7, values));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("of ", values.size(), " elements, but the model has 2")));
  }
  book.Average();
  EXPECT_EQ(book.current(), (MovingStatistics{.mean = {0, 1}}));
  EXPECT_THAT(book.StartOf(0), ElementsAre(0, 1));
}

TEST(StatisticsBook, NonFiniteStatisticsAreRefusedAndLeaveTheBookUnchanged) {
  StatisticsBook book(2, {.mean = {0, 1}});
  ASSERT_TRUE(book.OnRunDone(0, Done(1, {2, 2})).ok());
  ASSERT_TRUE(book.OnRunDone(1, Done(1, {4, 4})).ok());
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), infinity, -infinity}) {
    const absl::Status status = book.OnRunDone(0, Done(9, {7, bad}));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not finite"));
  }
  EXPECT_THAT(book.StartOf(0), ElementsAre(2, 2));
  book.Average();
  EXPECT_THAT(book.current().mean, ElementsAre(3, 3)) << "neither values nor steps are noted";
}

TEST(StatisticsBook, LockStepReplacementIsLeftOutOfTheFirstAveragingAndThenIncluded) {
  StatisticsBook book(2, {.mean = {0}});
  const auto done = [&](int worker, float value) {
    proto::RunDone message;
    message.set_steps(10);
    message.add_statistics(value);
    ASSERT_TRUE(book.OnRunDone(worker, message).ok());
  };
  book.OnLost(1);
  done(0, 8);
  done(1, 2);
  book.Average(/*equally=*/true);
  EXPECT_EQ(book.current().mean, std::vector<float>({8}));
  done(0, 8);
  done(1, 6);
  book.Average(/*equally=*/true);
  EXPECT_EQ(book.current().mean, std::vector<float>({7}));
  book.OnLost(0);
  book.OnLost(1);
  done(1, 3);
  book.Average(/*equally=*/true);
  EXPECT_EQ(book.current().mean, std::vector<float>({3})) << "no other worker is left";
}

}  // namespace
}  // namespace tethys
