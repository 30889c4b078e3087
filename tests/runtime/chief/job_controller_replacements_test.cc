// Replacements of lost workers: who is admitted, when a replacement takes part, and which batches it gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/chief/losses_fixture.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(LossesTest, ReplacementIsSetUpOnceServersFenceTheLostWorkerAndTrainsOnceTheyEnrolIt) {
  for (const char* job : {kAsynchronous, kStale}) {
    Begin(absl::StrCat(job, " max_restarts: 1"));
    Vanish(Worker(1));
    JoinAgain();
    EXPECT_THAT(Log(), ElementsAre("p0 fence")) << "the servers do not refuse the lost worker yet";
    Fenced();
    EXPECT_THAT(Log(), ElementsAre("w1 setup", "w1 form"));
    SayAs(2, Worker(1), "ready {}");
    SayAs(2, Worker(1), "formed { generation: 1 }");
    EXPECT_THAT(Log(), ElementsAre("p0 fence"));
    now_ += 2 * kSecond;
    Fenced(true);
    EXPECT_EQ(Summary().worker_loss(0).replaced_seconds(), 2);
    EXPECT_THAT(notes_, Contains(HasSubstr("worker 1 on b takes part again")));
  }
}

TEST_F(LossesTest, StepsBeforeAReplacementJoinedDoNotCountAsItsLag) {
  Begin(absl::StrCat(kAsynchronous, " max_restarts: 1"));
  Say(Worker(0), "heartbeat { step: 100 }");
  Vanish(Worker(1));
  JoinAgain();
  Fenced();
  SayAs(2, Worker(1), "ready {}");
  SayAs(2, Worker(1), "formed { generation: 1 }");
  Fenced(true);
  Tick(1.5);
  ASSERT_FALSE(pulses_.empty());
  EXPECT_EQ(pulses_.back().task(1).lag(), 0);
}

TEST_F(LossesTest, ReplacementGetsAFreeLocalRankOnItsHost) {
  Begin("workers: 3 max_restarts: 1 strategy { parameter_server { servers: 1 asynchronous {} } }");
  Vanish(Worker(0));
  Vanish(Worker(1));
  JoinAgain();
  Fenced();
  EXPECT_EQ(Last(proto::ToTask::kSetup).order.setup().self().local_rank(), 0) << "worker 1, now on host b";
  const proto::Group& group = Last(proto::ToTask::kForm).order.form().group();
  ASSERT_EQ(group.member_size(), 3) << "worker 0 is lost";
  EXPECT_EQ(group.member(0).index(), 1);
  EXPECT_EQ(group.member(1).local_rank(), 2) << "worker 2 keeps its local rank";
}

TEST_F(LossesTest, ReplacementGetsLeasesOfTheRunningSegment) {
  Begin(kAsynchronous);
  Vanish(Worker(1));
  JoinAgain();
  Fenced();
  SayAs(2, Worker(1), "ready {}");
  SayAs(2, Worker(1), "formed { generation: 1 }");
  Log();
  Fenced(true);
  EXPECT_THAT(Log(), ElementsAre("w1 run", "w1 lease"));
  EXPECT_EQ(NewestLease(1).range(0).begin(), 5) << "the batch that its predecessor held";
}

TEST_F(LossesTest, UnusedShardOfALostWorker_IsTrainedByFinishedWorkersInAFurtherRun) {
  Begin(kSharded);
  ASSERT_EQ(NewestLease(0).range_size(), 2);
  EXPECT_EQ(NewestLease(0).range(1).begin(), 10);
  EXPECT_TRUE(NewestLease(0).last());
  UseAll(0);
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("p0 fence"));
  Fenced();
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w0 lease"));
  EXPECT_EQ(NewestLease(0).range(0).begin(), 5);
  UseAll(0);
  EXPECT_THAT(Log(), Contains("w0 evaluate"));
}

TEST_F(LossesTest, ReplacementGetsTheUnusedRestOfTheLostWorkersShard) {
  Begin(kSharded);
  Use(1, 5);
  Vanish(Worker(1));
  JoinAgain();
  Fenced();
  SayAs(2, Worker(1), "ready {}");
  SayAs(2, Worker(1), "formed { generation: 1 }");
  Fenced(true);
  ASSERT_EQ(NewestLease(1).range_size(), 1);
  EXPECT_EQ(NewestLease(1).range(0).begin(), 15);
  EXPECT_TRUE(NewestLease(1).last());
}

TEST_F(LossesTest, ReplacementStartsAtTheFirstRoundNotYetLeasedToAnyWorker) {
  train_samples_ = 200;
  Begin(kStale);
  Vanish(Worker(1));
  JoinAgain();
  Fenced();
  SayAs(2, Worker(1), "ready {}");
  SayAs(2, Worker(1), "formed { generation: 1 }");
  EXPECT_EQ(orders_.back().order.fence().clock(), 4);
  Say(Worker(0), "lease_request { batches: 3 }");
  Log();
  Fenced(true);
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "w1 run", "w1 lease"));
  EXPECT_EQ(orders_[orders_.size() - 3].order.fence().clock(), 7);
  EXPECT_EQ(NewestLease(1).range(0).clock(), 7);
}

TEST_F(LossesTest, ReplacementJoinedBeforeLossIsNoticed_IsSetUpOnceFenced) {
  Begin(kAsynchronous);
  JoinAgain();
  EXPECT_THAT(Log(), ElementsAre("p0 fence"));
  Vanish(Worker(1));  // The session of the first incarnation ends only now.
  EXPECT_THAT(Log(), IsEmpty());
  Fenced();
  EXPECT_THAT(Log(), ElementsAre("w1 setup", "w1 form"));
}

TEST_F(LossesTest, LostReplacementIsFencedLikeTheWorkerItReplaced) {
  Begin(absl::StrCat(kAsynchronous, " max_restarts: 2"));
  Vanish(Worker(1));
  JoinAgain();
  incarnation_ = 2;
  Vanish(Worker(1));
  incarnation_ = 1;
  Fenced(false, 1, 2);
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "p0 fence"))
      << "an answer to the first fence does not answer the second";
  Fenced(false, 1, 3);
  UseAll(0);
  EXPECT_THAT(Log(), Contains("w0 evaluate"));
  EXPECT_EQ(Summary().worker_loss_size(), 2);
}

TEST_F(LossesTest, OnlyLaterIncarnationOfLeasingWorkerIsAdmitted) {
  Begin(kAsynchronous);
  EXPECT_TRUE(absl::IsAlreadyExists(controller_->Admit(Worker(1), 1, now_)));
  EXPECT_TRUE(absl::IsAlreadyExists(controller_->Admit(Server(), 2, now_)));
  EXPECT_TRUE(controller_->Admit(Worker(1), 2, now_).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(controller_->Admit(Worker(1), 2, now_))) << "the same incarnation twice";
  StartAndMakeReady("workers: 2 strategy { mirrored {} } device { kind: CUDA }");
  EXPECT_TRUE(absl::IsAlreadyExists(controller_->Admit(Worker(1), 2, now_)));
}

}  // namespace
}  // namespace tethys
