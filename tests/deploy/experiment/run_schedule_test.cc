#include "deploy/experiment/run_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/deploy/report/run_records.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Runs the schedule to its end. The runs listed in `disturbed`, by variant and block, count as disturbed.
std::vector<RunSlot> Play(RunSchedule& schedule, const std::vector<std::pair<int, int>>& disturbed = {}) {
  std::vector<RunSlot> order;
  while (const auto slot = schedule.Next()) {
    order.push_back(*slot);
    schedule.Finished(std::count(disturbed.begin(), disturbed.end(), std::pair(slot->variant, slot->block)) >
                      0);
  }
  return order;
}

TEST(RunScheduleTest, WithoutRandomOrderEachBlockRunsAllVariantsInTheirOrder) {
  RunSchedule schedule({.variants = 2, .repeats = 2, .random = false});
  EXPECT_THAT(Play(schedule), ElementsAre(RunSlot{0, 0}, RunSlot{1, 0}, RunSlot{0, 1}, RunSlot{1, 1}));
}

TEST(RunScheduleTest, RandomOrderHasEachVariantOncePerBlock) {
  RunSchedule schedule({.variants = 6, .repeats = 8, .seed = 5});
  const std::vector<RunSlot> order = Play(schedule);
  ASSERT_EQ(order.size(), 48u);
  std::set<std::vector<int>> orders;
  for (int block = 0; block < 8; ++block) {
    std::vector<int> variants;
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(order[block * 6 + i].block, block);
      variants.push_back(order[block * 6 + i].variant);
    }
    EXPECT_THAT(variants, UnorderedElementsAre(0, 1, 2, 3, 4, 5));
    orders.insert(variants);
  }
  EXPECT_GT(orders.size(), 6u);
  RunSchedule same({.variants = 6, .repeats = 8, .seed = 5});
  EXPECT_EQ(Play(same), order);
}

TEST(RunScheduleTest, DisturbedRunIsRepeatedOnceAtEndOfBlock) {
  RunSchedule schedule({.variants = 2, .repeats = 2, .random = false});
  EXPECT_THAT(Play(schedule, {{0, 0}, {1, 1}}),
              ElementsAre(RunSlot{0, 0}, RunSlot{1, 0}, RunSlot{0, 0, true}, RunSlot{0, 1}, RunSlot{1, 1},
                          RunSlot{1, 1, true}));
}

TEST(RunScheduleTest, RunsToComeIncludeRepetitionsOfDisturbedRunsInOrder) {
  RunSchedule schedule({.variants = 2, .repeats = 2, .random = false});
  schedule.Finished(true);
  EXPECT_THAT(schedule.ToCome(),
              ElementsAre(RunSlot{1, 0}, RunSlot{0, 0, true}, RunSlot{0, 1}, RunSlot{1, 1}));
}

TEST(RunScheduleTest, AddedBlockComesLast) {
  RunSchedule schedule({.variants = 3, .repeats = 1, .random = false});
  schedule.AddBlock({1});
  EXPECT_THAT(Play(schedule), ElementsAre(RunSlot{0, 0}, RunSlot{1, 0}, RunSlot{2, 0}, RunSlot{1, 1}));
}

TEST(VariantsNotWithinTest, VariantsWithWideIntervalsOrASingleRunAreReturned) {
  using testing::FailedRun;
  using testing::OneRun;
  const std::vector<RunRecord> runs = {
      // Half of this variant's interval is 1.2 % of the mean.
      OneRun(0, 0, 0.9, 10.0), OneRun(0, 1, 0.9, 10.1), OneRun(0, 2, 0.9, 10.05),
      // Half of this variant's interval is 41 % of the mean.
      OneRun(1, 0, 0.9, 10.0), OneRun(1, 1, 0.9, 14.0), OneRun(1, 2, 0.9, 12.0), OneRun(2, 0, 0.9, 10.0),
      FailedRun(3, 0)};
  EXPECT_THAT(VariantsNotWithin(0.05, runs, 4), ElementsAre(1, 2));
  EXPECT_THAT(VariantsNotWithin(0.01, runs, 4), ElementsAre(0, 1, 2));
  EXPECT_THAT(VariantsNotWithin(0.05, absl::MakeConstSpan(runs).subspan(0, 3), 1), IsEmpty());
}

}  // namespace
}  // namespace tethys
