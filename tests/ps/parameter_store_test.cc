#include "ps/parameter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime/base/crc32c.h"
#include "tests/ps/parameter_store_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// ------------------------------------------------------------------------------------- bulk-synchronous

TEST_F(ParameterStoreTest, BulkUpdateNeedsAllWorkersAndDividesBySamples) {
  MakeBulk(3);
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .samples = 2}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 2, .samples = 2}), "wait");
  EXPECT_EQ(Parameter(), 0);
  EXPECT_EQ(Do({.worker = 2, .gradient = 5, .samples = 4}), "w0 v1, w1 v1, w2 v1");
  EXPECT_EQ(Parameter(), -1);
  EXPECT_EQ(store_->version(), 1);
}

TEST_F(ParameterStoreTest, BulkSynchronousUpdateRecordsEachPushThatItApplied) {
  MakeBulk(2);
  Do({.worker = 1, .samples = 3});
  Do({.worker = 0, .samples = 4});
  ASSERT_EQ(actions_.applied.size(), 2);
  const proto::AppliedPush& push = actions_.applied[1];
  EXPECT_EQ(push.worker(), 1);
  EXPECT_EQ(push.incarnation(), 1);
  EXPECT_EQ(push.sequence(), 1);
  EXPECT_EQ(push.sample_begin(), 1001);
  EXPECT_EQ(push.sample_count(), 3);
  EXPECT_EQ(push.version(), 1);
  EXPECT_EQ(push.staleness(), 0);
}

// In float32, (1e8 + 1) - 1e8 is 0, but (1e8 - 1e8) + 1 is 1.
TEST_F(ParameterStoreTest, OrderedSumIsInRankOrderForAnyOrderOfArrival) {
  for (const auto& order : std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}}) {
    MakeBulk(3);
    const float gradients[] = {1e8f, 1, -1e8f};
    for (const int worker : order) Do({.worker = worker, .gradient = gradients[worker]});
    EXPECT_EQ(store_->version(), 1);
    EXPECT_EQ(Parameter(), 0);
  }
}

TEST_F(ParameterStoreTest, OrderedSumIsInRankOrderIfPartsInterleave) {
  MakeBulk(3);
  const float gradients[] = {1e8f, 1, -1e8f};
  for (const Range part : {Range{16, 3}, Range{0, 8}}) {
    for (const int worker : {2, 0, 1}) Do({.worker = worker, .gradient = gradients[worker], .part = part});
  }
  EXPECT_EQ(store_->version(), 1);
  EXPECT_EQ(Parameter(), 0);
}

TEST_F(ParameterStoreTest, SummationByArrivalAddsPushesOfEachStepInTheOrderOfTheirArrival) {
  MakeBulk(3, proto::BulkSynchronous::ARRIVAL);
  Do({.worker = 0, .gradient = 1e8f});
  Do({.worker = 2, .gradient = -1e8f});
  EXPECT_EQ(Do({.worker = 1, .gradient = 1}), "w0 v1, w1 v1, w2 v1");
  EXPECT_FLOAT_EQ(Parameter(), -1.0f / 3);
  for (const int worker : {1, 0, 2})
    Do({.worker = worker, .gradient = 2, .step = 1, .sequence = 2, .base = 1});
  EXPECT_FLOAT_EQ(Parameter(), -1.0f / 3 - 2);
}

TEST_F(ParameterStoreTest, PushWithoutSamplesCompletesTheStepButAddsNothing) {
  for (const int empty : {0, 1}) {
    MakeBulk(2);
    EXPECT_EQ(Do({.worker = empty, .gradient = 100, .samples = 0}), "wait");
    EXPECT_EQ(Do({.worker = 1 - empty, .gradient = 6, .samples = 2}), "w0 v1, w1 v1");
    EXPECT_EQ(Parameter(), -3);
  }
}

TEST_F(ParameterStoreTest, PartIsAnsweredOnceAllWorkersHaveSentIt) {
  MakeBulk(2);
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {0, 8}}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 1, .part = {16, 3}}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 1, .part = {0, 8}}), "w0 v1 [0,8), w1 v1 [0,8)");
  EXPECT_EQ(store_->version(), 0);
  EXPECT_TRUE(actions_.applied.empty()) << "the step is not applied yet";
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {16, 3}}), "w0 v1 [16,19), w1 v1 [16,19)");
  EXPECT_EQ(actions_.applied.size(), 2);
  EXPECT_EQ(store_->version(), 1);
  EXPECT_EQ(Parameter(), -1);
}

TEST_F(ParameterStoreTest, WorkersMayCutTheirPushesDifferently) {
  for (const auto summation : {proto::BulkSynchronous::ORDERED, proto::BulkSynchronous::ARRIVAL}) {
    MakeBulk(2, summation);
    EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {0, 4}}), "wait");
    EXPECT_EQ(Do({.worker = 1, .gradient = 1, .part = {0, 19}}), "w0 v1 [0,4)");
    EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {4, 15}}), "w0 v1 [4,19), w1 v1");
    EXPECT_EQ(Parameter(), -1);
  }
}

TEST_F(ParameterStoreTest, LearningRateDependsOnSamplesUsed) {
  optimizer_.mutable_schedule()->mutable_linear_decay();
  MakeBulk(1);
  Do({.gradient = 1, .position = 500});
  EXPECT_FLOAT_EQ(Parameter(), -0.5);
}

TEST_F(ParameterStoreTest, WorkersMustAgreeOnTheSchedule) {
  MakeBulk(2);
  Do({.worker = 0, .position = 10});
  EXPECT_THAT(Do({.worker = 1, .position = 20}),
              HasSubstr("the schedule position of this push is sample 20, but the position of the worker of "
                        "rank 0 is sample 10"));
  EXPECT_EQ(Do({.worker = 1, .position = 10}), "w0 v1, w1 v1");
}

TEST_F(ParameterStoreTest, StepOutOfOrderIsRefusedNamingWorkerAndStep) {
  MakeBulk(2);
  EXPECT_THAT(Do({.worker = 1, .step = 5}), HasSubstr("worker 1, step 5: step 0 is next"));
  EXPECT_THAT(Do({.worker = 1, .sequence = 3}), HasSubstr("expected push 1, got push 3"));
  EXPECT_THAT(Do({.worker = 1, .base = 4}), HasSubstr("version 4"));
}

TEST_F(ParameterStoreTest, NextStepIsRefusedWhileAPushIsIncomplete) {
  MakeBulk(1);
  Do({.part = {0, 8}});
  EXPECT_THAT(Do({.step = 1, .sequence = 2, .part = {16, 3}}), HasSubstr("push 1 of step 0 is not complete"));
}

// ------------------------------------------------------------------------------------------ asynchronous

TEST_F(ParameterStoreTest, AsynchronousPushIsAppliedAtOnceWithItsMean) {
  MakeAsynchronous(2);
  EXPECT_EQ(Do({.worker = 1, .gradient = 8, .samples = 4}), "w1 v1");
  EXPECT_EQ(Parameter(), -2);
}

TEST_F(ParameterStoreTest, GlobalMeanDividesByTheJobsGlobalBatch) {
  MakeAsynchronous(2, proto::Asynchronous::GLOBAL_MEAN);
  Do({.worker = 1, .gradient = 8, .samples = 4});
  EXPECT_FLOAT_EQ(Parameter(), -0.08);
}

TEST_F(ParameterStoreTest, StalenessCountsUpdatesSinceTheBaseVersion) {
  MakeAsynchronous(3);
  EXPECT_EQ(Do({.worker = 0, .base = 0}), "w0 v1");
  EXPECT_EQ(Do({.worker = 1, .base = 0}), "w1 v2 stale 1");
  EXPECT_EQ(Do({.worker = 2, .base = 0}), "w2 v3 stale 2");
  EXPECT_EQ(Do({.worker = 0, .step = 1, .sequence = 2, .base = 1}), "w0 v4 stale 2");
  EXPECT_EQ(actions_.applied[0].staleness(), 2);
  EXPECT_EQ(store_->staleness_histogram(), (std::map<int64_t, int64_t>{{0, 1}, {1, 1}, {2, 2}}));
}

TEST_F(ParameterStoreTest, PushIsAnsweredWithoutParametersIfWorkersPullBeforeEachStep) {
  MakeAsynchronous(2, proto::Asynchronous::PUSH_MEAN, proto::Asynchronous::BEFORE_STEP);
  EXPECT_EQ(Do({.worker = 0, .gradient = 1}), "w0 v1 without values");
  EXPECT_EQ(Pull(1, {0, 8}), "w1 v1 [0,8)");
  EXPECT_EQ(Do({.worker = 1, .gradient = 1, .base = 0}), "w1 v2 stale 1 without values");
  EXPECT_EQ(Do({.worker = 1, .gradient = 1, .base = 0}), "w1 v2 stale 1 without values") << "a repeat";
  EXPECT_EQ(Parameter(), -2);
}

TEST_F(ParameterStoreTest, PartsOfAsynchronousPushesMayInterleave) {
  MakeAsynchronous(2);
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {0, 8}}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 10, .part = {0, 8}}), "wait");
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {16, 3}}), "w0 v1 [0,8), w0 v1 [16,19)");
  EXPECT_EQ(Parameter(), -1);
  EXPECT_EQ(Do({.worker = 1, .gradient = 10, .part = {16, 3}}), "w1 v2 stale 1 [0,8), w1 v2 stale 1 [16,19)");
  EXPECT_EQ(Parameter(), -11);
}

TEST_F(ParameterStoreTest, AsynchronousStepsOfAWorkerMustBeConsecutive) {
  MakeAsynchronous(2);
  EXPECT_EQ(Do({.worker = 0, .step = 40}), "w0 v1") << "a resumed worker counts on";
  EXPECT_THAT(Do({.worker = 0, .step = 42, .sequence = 2, .base = 1}),
              HasSubstr("worker 0, step 42: step 41 is next"));
  EXPECT_THAT(Do({.worker = 0, .step = 41, .sequence = 2, .base = 9}), HasSubstr("version 9"));
  EXPECT_THAT(Do({.worker = 1, .samples = 0}), HasSubstr("needs a sample"));
}

// ---------------------------------------------------------------------------------------------- repeats

TEST_F(ParameterStoreTest, RepeatedPushThatWasAppliedIsAnsweredButNotAppliedAgain) {
  MakeAsynchronous(2);
  Do({.worker = 0, .gradient = 1});
  Do({.worker = 1, .gradient = 1});
  EXPECT_EQ(Do({.worker = 1, .gradient = 1}), "w1 v2 stale 1");
  EXPECT_TRUE(actions_.applied.empty());
  EXPECT_EQ(Parameter(), -2);
}

TEST_F(ParameterStoreTest, RepeatedPartOfAnIncompletePushIsIgnored) {
  MakeBulk(2);
  Do({.worker = 1, .gradient = 2, .part = {0, 8}});
  EXPECT_EQ(Do({.worker = 1, .gradient = 2, .part = {0, 8}}), "wait");
  EXPECT_EQ(Do({.worker = 0, .gradient = 2, .part = {16, 3}}), "wait");
  EXPECT_EQ(Do({.worker = 0, .gradient = 2, .part = {16, 3}}), "wait");
  Do({.worker = 0, .gradient = 2, .part = {0, 8}});
  Do({.worker = 1, .gradient = 2, .part = {16, 3}});
  EXPECT_EQ(Parameter(), -2);
}

TEST_F(ParameterStoreTest, RepeatedPushOfAnUpdatedPartIsAnsweredBeforeTheStepEnds) {
  MakeBulk(2);
  Do({.worker = 0, .gradient = 2, .part = {0, 8}});
  Do({.worker = 1, .gradient = 2, .part = {0, 8}});
  EXPECT_EQ(Do({.worker = 0, .gradient = 2, .part = {0, 8}}), "w0 v1 [0,8)");
  Do({.worker = 0, .gradient = 2, .part = {16, 3}});
  Do({.worker = 1, .gradient = 2, .part = {16, 3}});
  EXPECT_EQ(Do({.worker = 1, .gradient = 2, .part = {0, 8}}), "w1 v1 [0,8)");
  EXPECT_EQ(Parameter(), -2);
}

TEST_F(ParameterStoreTest, OverlappingPartsAreRefused) {
  MakeBulk(1);
  Do({.part = {0, 8}});
  EXPECT_THAT(Do({.part = {4, 8}}), HasSubstr("overlaps the range of 8 elements that begins at element 0"));
}

TEST_F(ParameterStoreTest, OldIncarnationIsRefused) {
  MakeAsynchronous(1);
  EXPECT_EQ(Do({.incarnation = 2}), "w0 v1");
  EXPECT_THAT(Do({.sequence = 2, .incarnation = 1}), HasSubstr("incarnation 2 has taken its place"));
  EXPECT_EQ(Do({.step = 9, .sequence = 1, .base = 1, .incarnation = 3}), "w0 v2") << "a new one starts anew";
}

TEST_F(ParameterStoreTest, ReplacementOfAWorkerLostWithinAStepIsRefused) {
  MakeBulk(2);
  Do({.worker = 0, .gradient = 1});
  EXPECT_THAT(Do({.worker = 0, .gradient = 1, .incarnation = 2}), HasSubstr("lost in the middle of step 0"));
}

TEST_F(ParameterStoreTest, FenceOfAWorkerWithinABulkSynchronousStepIsRefused) {
  MakeBulk(2);
  Do({.worker = 0, .gradient = 1, .part = {0, 8}});
  EXPECT_THAT(Fence(0, 2, false), HasSubstr("lost in the middle of step 0"));
}

TEST_F(ParameterStoreTest, PushOfAnotherGenerationIsRefused) {
  MakeBulk(1);
  EXPECT_THAT(Do({.generation = 6}),
              HasSubstr("the worker's generation is 6, but the generation of the job is 7"));
}

// ----------------------------------------------------------------------------- invalid values and frames

TEST_F(ParameterStoreTest, NonFiniteGradientChangesNothingAndNamesItsWorker) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    MakeBulk(2);
    Do({.worker = 0, .gradient = 1});
    EXPECT_THAT(
        Do({.worker = 1, .gradient = bad}),
        AllOf(StartsWith("refused: FAILED_PRECONDITION: server 2 refuses worker 1, step 0: a gradient"),
              HasSubstr("is NaN or infinite (in a, b)"), HasSubstr("Lower optimizer.learning_rate")));
    EXPECT_FALSE(actions_.fatal.ok());
    EXPECT_EQ(store_->version(), 0);
    EXPECT_EQ(Parameter(), 0);
    EXPECT_THAT(Do({.worker = 1, .gradient = 1}), HasSubstr("refused")) << "the store is broken";
  }
}

TEST_F(ParameterStoreTest, NonFiniteValueInALaterPartFailsTheStoreAndLaterReads) {
  MakeBulk(1);
  EXPECT_EQ(Do({.gradient = 1, .part = {0, 8}}), "w0 v1 [0,8)");
  EXPECT_THAT(Do({.gradient = std::nanf(""), .part = {16, 3}}), HasSubstr("the step is not applied"));
  EXPECT_FALSE(actions_.fatal.ok());
  EXPECT_TRUE(actions_.applied.empty());
  EXPECT_EQ(store_->version(), 0);
  EXPECT_THAT(Pull(0, {0, 8}), HasSubstr("the step is not applied"));
  const auto read = [](int, int64_t, absl::Span<float>) { return absl::OkStatus(); };
  EXPECT_THAT(StatusText(store_->ForEachShard(read)), HasSubstr("server 2 has not completed update 1"));
}

TEST_F(ParameterStoreTest, StepStaysIncompleteIfAWorkerIsLostBetweenParts) {
  MakeBulk(2);
  for (const int worker : {0, 1}) Do({.worker = worker, .gradient = 1, .part = {0, 8}});
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {16, 3}}), "wait");
  EXPECT_THAT(Do({.worker = 1, .gradient = 1, .part = {16, 3}, .incarnation = 2}),
              HasSubstr("lost in the middle of step 0: resume the job from its checkpoint"));
  EXPECT_EQ(store_->version(), 0);
  const auto read = [](int, int64_t, absl::Span<float>) { return absl::OkStatus(); };
  EXPECT_FALSE(store_->ForEachShard(read).ok());
}

TEST_F(ParameterStoreTest, OverflowingSumChangesNothing) {
  MakeBulk(2);
  Do({.worker = 0, .gradient = 3e38f});
  EXPECT_THAT(Do({.worker = 1, .gradient = 3e38f}),
              HasSubstr("a gradient, or its sum with the gradients of other workers, is NaN or infinite"));
  EXPECT_FALSE(actions_.fatal.ok());
  EXPECT_EQ(Parameter(), 0);
}

TEST_F(ParameterStoreTest, MalformedFramesAreRefusedAndChangeNothing) {
  MakeBulk(1);
  const std::string payload(19 * sizeof(float), '\0');
  const auto with = [](auto change) {
    Frame frame = ToFrame({});
    change(frame);
    return frame;
  };
  EXPECT_THAT(Do(with([](Frame& f) { f.rank = 1; }), payload), HasSubstr("the job has 1 workers"));
  EXPECT_THAT(Do(with([](Frame& f) { f.range_count = UINT64_MAX; }), payload), HasSubstr("OUT_OF_RANGE"));
  EXPECT_THAT(Do(with([](Frame& f) { f.range_begin = 30; }), payload), HasSubstr("OUT_OF_RANGE"));
  EXPECT_THAT(Do(with([](Frame& f) { f.sample_count = UINT64_MAX; }), payload),
              HasSubstr("global batch is 100"));
  EXPECT_THAT(Do(with([](Frame& f) { f.sequence = 0; }), payload), HasSubstr("expected push 1, got push 0"));
  EXPECT_THAT(Do(with([](Frame& f) { f.dtype = FrameDType::kNone; }), payload), HasSubstr("float32"));
  EXPECT_THAT(Do(ToFrame({}), absl::string_view(payload).substr(1)), HasSubstr("the message has 75 bytes"));
  EXPECT_EQ(Do({.gradient = 1}), "w0 v1");
}

TEST_F(ParameterStoreTest, ChecksumOfARepeatedPartIsNotVerified) {
  MakeBulk(2);
  Frame frame = ToFrame({.worker = 0});
  const std::vector<float> values(frame.range_count, 8);
  const absl::string_view payload(reinterpret_cast<const char*>(values.data()), frame.payload_bytes);
  frame.payload_checksum = Crc32c(payload) + 1;
  EXPECT_THAT(Do(frame, payload), HasSubstr("DATA_LOSS: server 2 refuses worker 0, step 0: [push"));
  --frame.payload_checksum;
  EXPECT_EQ(Do(frame, payload), "wait");
  ++frame.payload_checksum;
  EXPECT_EQ(Do(frame, payload), "wait") << "a repeat";
}

// ------------------------------------------------------------------------------------ pulls, checkpoints

TEST_F(ParameterStoreTest, PullIsAnsweredWithCurrentParameters) {
  MakeAsynchronous(2);
  EXPECT_EQ(Pull(1, {16, 3}), "w1 v0 [16,19)");
  Do({.worker = 0});
  EXPECT_EQ(Pull(1, {0, 8}), "w1 v1 [0,8)");
  EXPECT_THAT(Pull(1, {8, 20}), HasSubstr("OUT_OF_RANGE"));
}

TEST_F(ParameterStoreTest, ForEachShardVisitsShardsOfAllSlotsInOrder) {
  optimizer_.mutable_sgd()->set_momentum(0.9);
  MakeBulk(1);
  Do({.gradient = 5});
  std::vector<std::string> seen;
  ASSERT_TRUE(store_
                  ->ForEachShard([&](int slot, int64_t begin, absl::Span<float> values) {
                    seen.push_back(absl::StrCat(slot, ":", begin, "+", values.size(), "=", values[0]));
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(absl::StrJoin(seen, " "), "0:0+8=-5 0:16+3=-5 1:0+8=1 1:16+3=1");
}

TEST_F(ParameterStoreTest, StepsContinueFromARestoredVersion) {
  MakeBulk(2);
  ASSERT_TRUE(store_->SetVersion(40).ok());
  Do({.worker = 0, .step = 40, .base = 40});
  EXPECT_FALSE(store_->SetVersion(0).ok()) << "a push is incomplete";
  EXPECT_EQ(Do({.worker = 1, .step = 40, .base = 40}), "w0 v41, w1 v41");
}

}  // namespace
}  // namespace tethys
