// Tests that a store of whole pushes whose shards have a copy records and answers a push only once the copy
// contains the push, and that another store goes on from the copy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ps/parameter_store_fixture.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CopiedPushesTest : public ParameterStoreTest {
 protected:
  void SetUp() override {
    copied_ = true;
    MakeAsynchronous(3);
  }
  std::string Copied(int64_t number) {
    actions_ = Taken();
    store_->OnCopied(number, actions_);
    return Words(absl::OkStatus());
  }
  // Creates another store, which goes on from the copy `copy` with the values of the present store.
  void Replace(const StoreCopy& copy) {
    const float value = Parameter();
    MakeAsynchronous(3);
    ASSERT_TRUE(store_->TakeBook(copy).ok());
    ASSERT_TRUE(store_
                    ->ForEachShard([&](int, int64_t, absl::Span<float> values) {
                      std::fill(values.begin(), values.end(), value);
                      return absl::OkStatus();
                    })
                    .ok());
  }
};

TEST_F(CopiedPushesTest, PushIsRecordedAndAnsweredOnceTheCopyContainsIt) {
  EXPECT_EQ(Do({.worker = 0, .gradient = 1}), "wait");
  EXPECT_THAT(actions_.copied, ElementsAre("copy 1: version 1, w0 push 1"));
  EXPECT_THAT(actions_.applied, IsEmpty());
  EXPECT_EQ(store_->open_copy(), 1);
  EXPECT_EQ(Copied(0), "wait") << "another copy";
  EXPECT_EQ(Copied(1), "w0 v1");
  EXPECT_EQ(actions_.applied.size(), 1u);
  EXPECT_EQ(store_->open_copy(), 0);
  EXPECT_EQ(Copied(1), "wait") << "it is answered already";
}

TEST_F(CopiedPushesTest, PushesThatArriveWhileACopyIsOnItsWayAreAppliedAfterwardsAndShareTheNextCopy) {
  Do({.worker = 0, .gradient = 1});
  EXPECT_EQ(Do({.worker = 1, .gradient = 10}), "wait");
  EXPECT_EQ(Do({.worker = 2, .gradient = 100}), "wait");
  EXPECT_EQ(Parameter(), -1) << "the values of the copy are being sent";
  EXPECT_EQ(Copied(1), "w0 v1");
  EXPECT_THAT(actions_.copied, ElementsAre("copy 2: version 3, w1 push 1, w2 push 1"));
  EXPECT_EQ(Parameter(), -111);
  EXPECT_EQ(Copied(2), "w1 v3 stale 1, w2 v3 stale 2");
  EXPECT_EQ(actions_.applied.size(), 2u);
}

TEST_F(CopiedPushesTest, RepeatedPushIsAnsweredOnlyAfterItsCopy) {
  Do({.worker = 0, .gradient = 1});
  EXPECT_EQ(Do({.worker = 0, .gradient = 1}), "wait");
  EXPECT_EQ(Copied(1), "w0 v1");
  EXPECT_EQ(Do({.worker = 0, .gradient = 1}), "w0 v1");
  EXPECT_EQ(Parameter(), -1);
}

TEST_F(CopiedPushesTest, PullIsNotAnsweredWithValuesThatHaveNoCopy) {
  Do({.worker = 0, .gradient = 1});
  EXPECT_EQ(Pull(1, {0, 19}), "wait");
  EXPECT_EQ(Copied(1), "w0 v1, w1 v1");
}

TEST_F(CopiedPushesTest, AnotherStoreGoesOnFromTheCopyAndAppliesNoPushTwice) {
  Do({.worker = 0, .gradient = 1});
  Copied(1);
  Do({.worker = 1, .gradient = 10});
  Copied(2);
  const StoreCopy copy = store_->OfferCopy();
  EXPECT_EQ(copy.number, 2);
  Replace(copy);
  EXPECT_EQ(store_->version(), 2);
  EXPECT_EQ(store_->push_log().pushes().size(), 2u) << "to be reported again";
  EXPECT_EQ(Do({.worker = 0, .gradient = 1}), "w0 v2") << "a repeat";
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .step = 1, .sequence = 2, .base = 1}), "wait");
  EXPECT_THAT(actions_.copied, ElementsAre("copy 3: version 3, w0 push 2"));
  EXPECT_EQ(Do({.worker = 2, .gradient = 100}), "wait");
  EXPECT_EQ(Copied(3), "w0 v3 stale 1");
  EXPECT_EQ(Parameter(), -112);
}

TEST_F(CopiedPushesTest, StaleSynchronousStoreGoesOnFromTheClocksOfTheCopy) {
  MakeStale(2, 0);
  EXPECT_EQ(Do({.worker = 0, .gradient = 50}), "wait") << "worker 1 has not pushed";
  EXPECT_EQ(store_->open_copy(), 0);
  EXPECT_EQ(Do({.worker = 1, .gradient = 50}), "wait");
  EXPECT_EQ(Copied(1), "w0 v1, w1 v1");
  const StoreCopy copy = store_->OfferCopy();
  MakeStale(2, 0);
  ASSERT_TRUE(store_->TakeBook(copy).ok());
  EXPECT_EQ(Do({.worker = 0, .step = 1, .sequence = 2, .base = 1}), "wait") << "worker 1 has to make step 1";
  EXPECT_EQ(Do({.worker = 1, .step = 1, .sequence = 2, .base = 1}), "wait");
  EXPECT_EQ(Copied(2), "w0 v2, w1 v2");
}

TEST_F(CopiedPushesTest, FenceDiscardsTheLostWorkersPushThatWaitsAndKeepsTheOneThatWasApplied) {
  Do({.worker = 0, .gradient = 1});
  Do({.worker = 1, .gradient = 10});
  EXPECT_EQ(Fence(0, 2, false), "wait");
  EXPECT_EQ(Fence(1, 2, false), "wait");
  EXPECT_EQ(Copied(1), "wait") << "nobody waits for the answer any more";
  EXPECT_EQ(actions_.applied.size(), 1u) << "but the push counts";
  EXPECT_EQ(Parameter(), -1);
  EXPECT_EQ(store_->open_copy(), 0);
}

TEST_F(CopiedPushesTest, FenceThatLetsOtherWorkersGoOnTakesEffectAfterTheCopy) {
  MakeStale(3, 1, proto::Asynchronous::PUSH_MEAN);
  const auto push = [this](int worker, uint64_t step) {
    return Do({.worker = worker, .gradient = 1, .step = step, .sequence = step + 1, .position = step});
  };
  EXPECT_EQ(push(0, 0), "wait");
  EXPECT_EQ(Copied(1), "w0 v1");
  EXPECT_EQ(push(0, 1), "wait") << "workers 1 and 2 have made no step";
  EXPECT_EQ(push(1, 0), "wait");
  EXPECT_GT(store_->open_copy(), 0);
  EXPECT_EQ(Fence(2, 2, false), "wait") << "its effect waits for the copy";
  EXPECT_EQ(Copied(2), "w1 v2 stale 1");
  EXPECT_EQ(Copied(3), "w0 v3 stale 2");
}

TEST_F(CopiedPushesTest, StoreMakesNoUpdateWhileItOffersItsCopy) {
  EXPECT_EQ(store_->OfferCopy().number, 0);
  EXPECT_EQ(Do({.worker = 0, .gradient = 1}), "wait");
  EXPECT_EQ(Parameter(), 0);
  EXPECT_EQ(Copied(0), "wait");
  EXPECT_THAT(actions_.copied, ElementsAre("copy 1: version 1, w0 push 1"));
}

TEST_F(CopiedPushesTest, CopyOfAnotherNumberOfWorkersIsRefused) {
  StoreCopy copy;
  copy.book.add_worker();
  EXPECT_THAT(StatusText(store_->TakeBook(copy)), HasSubstr("is of 1 workers, but the job has 3"));
}

}  // namespace
}  // namespace tethys
