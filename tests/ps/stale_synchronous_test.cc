// Tests the stale-synchronous rule on a parameter store, and fences, which exclude or admit a worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/ps/parameter_store_fixture.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

class StaleSynchronousTest : public ParameterStoreTest {
 protected:
  // Sends the worker's push for its next step, computed from the parameters that the worker received last.
  std::string Step(int worker, float gradient = 1) {
    State& state = states_[worker];
    const std::string words = Do({.worker = worker,
                                  .gradient = gradient,
                                  .step = state.clock,
                                  .sequence = ++state.sequence,
                                  .base = state.version,
                                  .position = 100 * state.clock});
    ++state.clock;
    Follow();
    return words;
  }
  void Follow() {
    for (const ParameterReply& reply : actions_.replies) states_[reply.worker].version = reply.version;
  }

  struct State {
    uint64_t clock = 0;
    uint64_t sequence = 0;
    uint64_t version = 0;
  };
  std::map<int, State> states_;
};

// ------------------------------------------------------------------------------------------------ bound 0

TEST_F(StaleSynchronousTest, WithBoundZeroNoPushIsAnsweredUntilAllHavePushed) {
  MakeStale(3, 0);
  EXPECT_EQ(Step(2), "wait");
  EXPECT_EQ(Step(0), "wait");
  EXPECT_EQ(Parameter(), 0);
  EXPECT_EQ(Step(1), "w0 v1, w1 v1, w2 v1");
  EXPECT_FLOAT_EQ(Parameter(), -0.03f);
}

TEST_F(StaleSynchronousTest, BoundZeroMakesTheBulkSynchronousUpdate) {
  // The sum of these gradients depends on the order of the additions.
  const std::vector<float> gradients = {1e8f, 1.25f, -1e8f};
  MakeBulk(3);
  for (int worker = 0; worker < 3; ++worker) {
    Do({.worker = worker, .gradient = gradients[worker], .samples = 20});
  }
  const float bulk = Parameter();
  MakeStale(3, 0);
  for (const int worker : {2, 0, 1}) {
    Do({.worker = worker, .gradient = gradients[worker], .samples = 20, .global = 60});
  }
  EXPECT_EQ(Parameter(), bulk);
  EXPECT_EQ(store_->version(), 1);
}

TEST_F(StaleSynchronousTest, PushWithoutSamplesCompletesTheStepButAddsNothing) {
  MakeStale(2, 0);
  EXPECT_EQ(Do({.worker = 0, .gradient = 5, .global = 50}), "wait");
  EXPECT_EQ(Do({.worker = 1, .samples = 0, .global = 50}), "w0 v1, w1 v1");
  EXPECT_FLOAT_EQ(Parameter(), -0.1f);
}

// ------------------------------------------------------------------------------ the stale-synchronous rule

TEST_F(StaleSynchronousTest, WorkerLeadsTheSlowestByAtMostTheBound) {
  MakeStale(2, 2);
  EXPECT_EQ(Step(0), "w0 v1");
  EXPECT_EQ(Step(0), "w0 v2");
  EXPECT_EQ(Step(0), "wait") << "three steps made, the other none";
  EXPECT_EQ(Step(1), "w0 v4 stale 1, w1 v4 stale 2") << "one step made lets the other begin its fourth";
}

TEST_F(StaleSynchronousTest, PendingPushesOfOneStepMakeOneUpdate) {
  MakeStale(3, 1);
  EXPECT_EQ(Step(0), "w0 v1");
  EXPECT_EQ(Step(0), "wait");
  EXPECT_EQ(Step(1), "w1 v2 stale 1") << "the update of its step alone, because worker 2 has made none";
  EXPECT_EQ(Step(1), "wait");
  EXPECT_EQ(Step(2), "w0 v4 stale 2, w1 v4 stale 1, w2 v4 stale 2") << "its step, then the one that waits";
}

TEST_F(StaleSynchronousTest, WithPushMeanEachPushUpdatesTheParametersSeparately) {
  MakeStale(2, 0, proto::Asynchronous::PUSH_MEAN);
  Do({.worker = 0, .gradient = 4, .samples = 4});
  Do({.worker = 1, .gradient = 4, .samples = 2});
  EXPECT_EQ(Parameter(), -3);
  EXPECT_EQ(store_->version(), 2);
}

TEST_F(StaleSynchronousTest, RepeatedPushThatMustWaitIsNotAnsweredEarly) {
  MakeStale(2, 1);
  Step(0);
  const Push push = {.worker = 0, .gradient = 1, .step = 1, .sequence = 2, .base = 1, .position = 100};
  EXPECT_EQ(Do(push), "wait");
  EXPECT_EQ(Do(push), "wait");
  EXPECT_EQ(Step(1), "w0 v3 stale 1, w1 v3 stale 1");
  EXPECT_EQ(Do(push), "w0 v3 stale 1") << "it was answered, so it is again";
}

TEST_F(StaleSynchronousTest, OldStepAndImpossibleGlobalBatchAreRefused) {
  MakeStale(1, 1);
  Step(0);
  EXPECT_THAT(Do({.worker = 0, .step = 0, .sequence = 2}), HasSubstr("step 1 is next"));
  EXPECT_THAT(Do({.worker = 0, .samples = 9, .step = 1, .sequence = 2, .global = 8}),
              HasSubstr("global batch"));
  EXPECT_THAT(Do({.worker = 0, .step = 1, .sequence = 2, .global = 101}), HasSubstr("global batch"));
}

TEST_F(StaleSynchronousTest, NonFiniteSumIsFatalAndChangesNothing) {
  MakeStale(2, 0);
  Step(0, 3e38f);
  EXPECT_THAT(Step(1, 3e38f), HasSubstr("NaN or infinite"));
  EXPECT_FALSE(actions_.fatal.ok());
  EXPECT_EQ(Parameter(), 0);
}

// Checks three properties for bound s and any order of arrivals:
// - The parameters sent for step c include all pushes for steps before c - s.
// - The staleness of a push is at most 2 s + 1 pushes of every other worker.
// - Between any two workers, the numbers of applied pushes differ by at most s.
TEST_F(StaleSynchronousTest, BoundOfStalenessHoldsForAnyOrderOfArrivingPushes) {
  constexpr int kWorkers = 4;
  constexpr uint64_t kSteps = 60;
  for (const int bound : {0, 1, 3}) {
    MakeStale(kWorkers, bound);
    states_.clear();
    std::mt19937 random(static_cast<uint32_t>(bound));
    std::vector<uint64_t> applied(kWorkers, 0);  // For each worker, the number of applied steps.
    std::vector<int> free = {0, 1, 2, 3};
    while (!free.empty()) {
      std::swap(free[random() % free.size()], free.back());
      const int worker = free.back();
      free.pop_back();
      Step(worker);
      for (const proto::AppliedPush& push : actions_.applied) {
        ++applied[push.worker()];
        EXPECT_LE(push.staleness(), bound == 0 ? 0 : (kWorkers - 1) * (2 * bound + 1));
      }
      const auto [least, most] = std::minmax_element(applied.begin(), applied.end());
      EXPECT_LE(*most, *least + bound) << "a worker leads by more";
      for (const ParameterReply& reply : actions_.replies) {
        const uint64_t next = states_[reply.worker].clock;
        EXPECT_EQ(applied[reply.worker], next) << "its own";
        for (const uint64_t steps : applied) EXPECT_GE(steps + bound, next);
        if (next < kSteps) free.push_back(reply.worker);
      }
    }
    EXPECT_EQ(applied, std::vector<uint64_t>(kWorkers, kSteps)) << "a worker waits forever";
  }
}

// Worker 0 takes four ticks for a step, the other workers one tick. A step must begin as soon as the worker's
// previous step is made and the slowest worker has made enough steps.
TEST_F(StaleSynchronousTest, SlowWorkerDelaysTheOthersOnlyAsTheRuleRequires) {
  constexpr int kBound = 3;
  constexpr int kSteps = 12;
  MakeStale(3, kBound);
  // For each worker, the tick at which the current step is made; 0: the worker waits for the answer.
  std::vector<int> ready = {4, 1, 1};
  std::vector<int> begun(kSteps + 1, 0);
  for (int tick = 1; states_[0].clock < kSteps; ++tick) {
    for (int worker = 0; worker < 3; ++worker) {
      if (ready[worker] != tick || states_[worker].clock >= kSteps) continue;
      ready[worker] = 0;
      Step(worker);
      for (const ParameterReply& reply : actions_.replies) {
        ready[reply.worker] = tick + (reply.worker == 0 ? 4 : 1);
        if (reply.worker == 1) begun[states_[1].clock] = tick;
      }
    }
  }
  int made = 1;
  for (int step = 1; step < kSteps; ++step) {
    const int expected = std::max(made, 4 * (step - kBound));
    EXPECT_EQ(begun[step], expected) << "step " << step;
    made = expected + 1;
  }
}

// ------------------------------------------------------------------------------------------------- fences

TEST_F(StaleSynchronousTest, FencedWorkerIsNotWaitedFor) {
  MakeStale(3, 0);
  Step(0);
  Step(2);
  EXPECT_EQ(Fence(1, 2, false), "w0 v1, w2 v1");
  EXPECT_FLOAT_EQ(Parameter(), -0.02f);
}

TEST_F(StaleSynchronousTest, UnappliedPushOfAFencedWorkerIsDiscarded) {
  MakeStale(2, 0);
  Step(1, 7);
  EXPECT_EQ(Fence(1, 2, false), "wait");
  EXPECT_EQ(Step(0), "w0 v1");
  EXPECT_FLOAT_EQ(Parameter(), -0.01f);
}

TEST_F(StaleSynchronousTest, OthersWaitForAReplacedWorkerFromItsFirstStep) {
  MakeStale(2, 1);
  Fence(1, 2, false);
  for (int step = 0; step < 5; ++step) EXPECT_NE(Step(0), "wait");
  EXPECT_EQ(Fence(1, 2, true, 5), "wait");
  EXPECT_EQ(Step(0), "w0 v6");
  EXPECT_EQ(Step(0), "wait");
  EXPECT_EQ(Do({.worker = 1, .step = 6, .base = 5, .position = 600, .incarnation = 2}),
            "w0 v7, w1 v7 stale 1");
}

TEST_F(StaleSynchronousTest, PullWaitsUntilTheRuleAllowsItsStep) {
  MakeStale(2, 0);
  const auto pull = [this](uint64_t step) {
    actions_ = Taken();
    return Words(store_->OnPull(ToFrame({.worker = 1, .step = step, .sequence = 0}), actions_));
  };
  EXPECT_EQ(pull(0), "w1 v0");
  Fence(1, 2, false);
  Fence(1, 2, true, 1);
  const Frame early = ToFrame({.worker = 1, .step = 1, .sequence = 0, .incarnation = 2});
  actions_ = Taken();
  EXPECT_EQ(Words(store_->OnPull(early, actions_)), "wait") << "worker 0 has not made step 0";
  EXPECT_EQ(Step(0), "w0 v1, w1 v1");
}

TEST_F(StaleSynchronousTest, PullOfAnEarlierStepDoesNotApplyPushesThatWait) {
  MakeStale(3, 0);
  EXPECT_EQ(Step(0), "wait");
  actions_ = Taken();
  EXPECT_EQ(Words(store_->OnPull(ToFrame({.worker = 2, .step = 0, .sequence = 0}), actions_)), "w2 v0");
  EXPECT_EQ(Parameter(), 0) << "worker 2 begins the step that worker 0 has made";
  EXPECT_EQ(Step(1), "wait");
  EXPECT_EQ(Step(2), "w0 v1, w1 v1, w2 v1");
  EXPECT_EQ(store_->version(), 1);
}

TEST_F(StaleSynchronousTest, SecondPullOfAStep_ReplacesTheFirst) {
  MakeStale(2, 0);
  Fence(1, 2, true, 1);
  const auto pull = [this](uint64_t sequence, Range part) {
    actions_ = Taken();
    const Push pull{.worker = 1, .step = 1, .sequence = sequence, .part = part, .incarnation = 2};
    return Words(store_->OnPull(ToFrame(pull), actions_));
  };
  EXPECT_EQ(pull(1, {0, 8}), "wait");
  EXPECT_EQ(pull(2, {16, 3}), "wait");
  EXPECT_EQ(Step(0), "w0 v1, w1 v1 [16,19)");
}

TEST_F(StaleSynchronousTest, FencedIncarnationIsRefusedAndItsSuccessorStartsAnew) {
  MakeAsynchronous(2);
  EXPECT_EQ(Do({.worker = 1, .part = {0, 8}}), "wait");
  Fence(1, 2, false);
  EXPECT_THAT(Do({.worker = 1, .part = {16, 3}}), HasSubstr("incarnation 2 has taken its place"));
  EXPECT_EQ(store_->version(), 0) << "a part of a push is no push";
  EXPECT_EQ(Do({.worker = 1, .step = 9, .incarnation = 2}), "w1 v1");
}

TEST_F(StaleSynchronousTest, RepeatedFenceChangesNothingAndUnknownWorkerIsRefused) {
  MakeAsynchronous(2);
  Fence(1, 2, false);
  EXPECT_EQ(Do({.worker = 1, .incarnation = 2}), "w1 v1");
  EXPECT_EQ(Fence(1, 2, false), "wait");
  EXPECT_EQ(Do({.worker = 1, .incarnation = 2}), "w1 v1") << "still known as a repeat";
  EXPECT_THAT(Fence(2, 2, false), HasSubstr("worker 2, but the job has 2 workers"));
}

}  // namespace
}  // namespace tethys
