#include "runtime/chief/held_records.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

const std::vector<TaskId> kTwo = {{proto::WORKER, 0}, {proto::WORKER, 2}};

HeldRecord Of(int64_t step) {
  HeldRecord held;
  held.record.set_step(step);
  return held;
}

TEST(HeldRecordsTest, StepIsCompleteOnceEveryWorkerHasRecordedIt) {
  HeldRecords held;
  held.Open(kTwo, 5);
  ASSERT_TRUE(held.Add({proto::WORKER, 0}, Of(5)).ok());
  ASSERT_TRUE(held.Add({proto::WORKER, 0}, Of(6)).ok());
  EXPECT_FALSE(held.TakeComplete().has_value());
  EXPECT_EQ(held.newest(), 7);
  ASSERT_TRUE(held.Add({proto::WORKER, 2}, Of(5)).ok());
  const absl::optional<CountedStep> step = held.TakeComplete();
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->step, 5);
  ASSERT_EQ(step->part.size(), 2u);
  EXPECT_EQ(step->part[1].worker, 2);
  EXPECT_FALSE(held.TakeComplete().has_value());
  EXPECT_EQ(held.next(), 6);
}

TEST(HeldRecordsTest, StepTakenBeforeAllRecordsArrivedLacksTheMissingRecord) {
  HeldRecords held;
  held.Open(kTwo, 5);
  ASSERT_TRUE(held.Add({proto::WORKER, 2}, Of(5)).ok());
  const CountedStep step = held.Take();
  EXPECT_FALSE(step.part[0].held.has_value());
  EXPECT_TRUE(step.part[1].held.has_value());
}

TEST(HeldRecordsTest, RecordThatSkipsOrRepeatsAStepIsRefused) {
  HeldRecords held;
  held.Open(kTwo, 5);
  EXPECT_TRUE(absl::IsInvalidArgument(held.Add({proto::WORKER, 0}, Of(6))));
  EXPECT_TRUE(absl::IsInvalidArgument(held.Add({proto::WORKER, 0}, Of(4))));
  EXPECT_TRUE(held.Add({proto::WORKER, 1}, Of(9)).ok());  // Worker 1 is not in the group.
  EXPECT_EQ(held.newest(), 5);
}

TEST(HeldRecordsTest, RecordsOfTheFormerGroupAreForgottenWhenTheNextGroupBegins) {
  HeldRecords held;
  held.Open(kTwo, 5);
  ASSERT_TRUE(held.Add({proto::WORKER, 0}, Of(5)).ok());
  held.Open({{proto::WORKER, 2}}, 5);
  EXPECT_EQ(held.newest(), 5);
}

proto::AppliedPush PushOf(int worker, int64_t version) {
  proto::AppliedPush push;
  push.set_worker(worker);
  push.set_version(version);
  return push;
}

TEST(HeldRecordsTest, PushesThatALostServerDidNotReportAreKnownFromTheStepsThatCount) {
  HeldRecords held;
  held.Open(kTwo, 0);
  for (const int server : {0, 1}) held.AddPush(server, PushOf(0, 1));
  held.AddPush(0, PushOf(2, 1));
  held.Take();
  for (const int worker : {0, 2}) held.NoteCounted(PushOf(worker, 1), 2);
  EXPECT_EQ(held.TakePushes().size(), 3u);
  EXPECT_TRUE(held.TakeUnreported(0).empty());
  HeldRecords restored;
  proto::HeldState state;
  held.Save(state);
  EXPECT_EQ(state.counted_size(), 1) << "both servers have reported the push of worker 0";
  ASSERT_TRUE(restored.Restore(state, 3, 2).ok());
  for (HeldRecords* const records : {&held, &restored}) {
    const std::vector<HeldPush> unreported = records->TakeUnreported(1);
    ASSERT_EQ(unreported.size(), 1u);
    EXPECT_EQ(unreported[0].server, 1);
    EXPECT_EQ(unreported[0].push.worker(), 2);
    EXPECT_TRUE(records->TakeUnreported(1).empty());
  }
}

TEST(HeldRecordsTest, RestoredStateAcceptsTheMissingRecordOfAStep) {
  HeldRecords held, restored;
  held.Open(kTwo, 5);
  ASSERT_TRUE(held.Add({proto::WORKER, 0}, Of(5)).ok());
  proto::HeldState state;
  held.Save(state);
  ASSERT_TRUE(restored.Restore(state, 3, 0).ok());
  ASSERT_TRUE(restored.Add({proto::WORKER, 2}, Of(5)).ok());
  EXPECT_TRUE(restored.TakeComplete().has_value());
  state.mutable_queue(0)->mutable_record(0)->set_step(9);
  EXPECT_TRUE(absl::IsInvalidArgument(restored.Restore(state, 3, 0)));
}

proto::AppliedPush PushOf(int64_t version) {
  proto::AppliedPush push;
  push.set_version(version);
  return push;
}

TEST(HeldRecordsTest, PushesAreReleasedOnceTheirStepCountsAndDroppedIfTheStepIsRepeated) {
  HeldRecords held, restored;
  held.Open({{proto::WORKER, 0}}, 5);
  for (const int server : {0, 1}) held.AddPush(server, PushOf(6));
  held.AddPush(1, PushOf(7));
  EXPECT_TRUE(held.TakePushes().empty());
  ASSERT_TRUE(held.Add({proto::WORKER, 0}, Of(5)).ok());
  ASSERT_TRUE(held.TakeComplete().has_value());

  proto::HeldState state;
  held.Save(state);
  ASSERT_TRUE(restored.Restore(state, 1, 2).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(HeldRecords().Restore(state, 1, 1)));
  const std::vector<HeldPush> counted = restored.TakePushes();
  ASSERT_EQ(counted.size(), 2u);
  EXPECT_EQ(counted[0].server, 0);
  EXPECT_EQ(counted[1].server, 1);
  // The push of version 7 belongs to step 6, which the group makes again.
  restored.Open({{proto::WORKER, 0}}, 6);
  ASSERT_TRUE(restored.Add({proto::WORKER, 0}, Of(6)).ok());
  ASSERT_TRUE(restored.TakeComplete().has_value());
  EXPECT_TRUE(restored.TakePushes().empty());
}

}  // namespace
}  // namespace tethys
