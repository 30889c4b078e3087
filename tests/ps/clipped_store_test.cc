// Tests the parameter store with clipping by global norm in bulk-synchronous training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/base/crc32c.h"
#include "tests/ps/parameter_store_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The store has 11 elements, so equal gradient sums g have a sum of squares of 11 g^2.
class ClippedStoreTest : public ParameterStoreTest {
 protected:
  void MakeClipped(int workers, double limit,
                   proto::BulkSynchronous::Summation summation = proto::BulkSynchronous::ORDERED) {
    clip_norm_ = limit;
    MakeBulk(workers, summation);
  }

  static Frame ExchangeFrame(FrameKind kind, const Push& push) {
    Frame frame = ToFrame(push);
    frame.kind = kind;
    frame.dtype = FrameDType::kFloat64;
    frame.range_begin = 0;
    frame.range_count = 1;
    frame.payload_bytes = kind == FrameKind::kCommit ? sizeof(double) : 0;
    return frame;
  }
  std::string Norm(const Push& push) {
    actions_ = Taken();
    return Words(store_->OnExchange(ExchangeFrame(FrameKind::kNorm, push), {}, actions_));
  }
  std::string Commit(const Push& push, double total) {
    return CommitFrame(ExchangeFrame(FrameKind::kCommit, push), total);
  }
  std::string CommitFrame(const Frame& frame, double total) {
    actions_ = Taken();
    // The payload in two pieces, because a message may arrive in pieces.
    const absl::string_view payload(reinterpret_cast<const char*>(&total), sizeof(total));
    return Words(store_->OnExchange(frame, {payload.substr(0, 3), payload.substr(3)}, actions_));
  }
};

TEST_F(ClippedStoreTest, UpdateIsHeldBackUntilTheFirstCommit) {
  MakeClipped(2, 1e6);
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .samples = 2}), "wait");
  EXPECT_EQ(Norm({.worker = 0}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 3, .samples = 2}), "w0 norm 176");
  EXPECT_EQ(Norm({.worker = 1}), "w1 norm 176");
  EXPECT_EQ(Parameter(), 0);
  EXPECT_EQ(store_->version(), 0);
  EXPECT_EQ(Commit({.worker = 1}, 176), "w1 committed, w0 v1, w1 v1");
  EXPECT_EQ(actions_.applied.size(), 2);
  EXPECT_EQ(Parameter(), -1);
  EXPECT_EQ(Commit({.worker = 0}, 176), "w0 committed");
  EXPECT_TRUE(actions_.applied.empty());
  EXPECT_EQ(store_->version(), 1);
  EXPECT_EQ(Parameter(), -1);
}

TEST_F(ClippedStoreTest, UpdateIsScaledByTheNormOverAllServers) {
  for (const auto summation : {proto::BulkSynchronous::ORDERED, proto::BulkSynchronous::ARRIVAL}) {
    MakeClipped(2, 0.5, summation);
    // The squares of the mean gradients sum up to 400 / 4^2 = 5^2 over all servers.
    for (uint64_t step = 0; step < 3; ++step) {
      const auto push = [&](int worker, float gradient) {
        return Push{.worker = worker,
                    .gradient = gradient,
                    .samples = 2,
                    .step = step,
                    .sequence = step + 1,
                    .base = step};
      };
      Do(push(1, 3));
      Do(push(0, 1));
      EXPECT_EQ(Norm(push(0, 1)), "w0 norm 176");
      Commit(push(0, 1), 400);
      EXPECT_FLOAT_EQ(Parameter(), -0.1f * static_cast<float>(step + 1));
      Commit(push(1, 3), 400);
    }
    EXPECT_EQ(store_->version(), 3);
  }
}

TEST_F(ClippedStoreTest, NormOfOrderedSumsIsTheSameForAnyOrderOfArrivingPushes) {
  for (const auto& order : std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    MakeClipped(3, 1);
    const float gradients[] = {1e8f, 1, -1e8f};
    for (const int worker : order) Do({.worker = worker, .gradient = gradients[worker]});
    EXPECT_EQ(Norm({.worker = 0}), "w0 norm 0");
    EXPECT_EQ(Commit({.worker = 0}, 0), "w0 committed, w0 v1, w1 v1, w2 v1");
    EXPECT_EQ(Parameter(), 0);
  }
}

TEST_F(ClippedStoreTest, PartsOfAClippedPushAreAnsweredOnlyAfterTheCommit) {
  MakeClipped(2, 1e6);
  for (const int worker : {0, 1}) {
    EXPECT_EQ(Do({.worker = worker, .gradient = 1, .part = {0, 8}}), "wait");
  }
  EXPECT_EQ(Norm({.worker = 1, .part = {0, 8}}), "wait");
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .part = {16, 3}}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 1, .part = {16, 3}}), "w1 norm 44");
  EXPECT_EQ(Commit({.worker = 0}, 44),
            "w0 committed, w0 v1 [0,8), w1 v1 [0,8), w0 v1 [16,19), w1 v1 [16,19)");
  EXPECT_EQ(Parameter(), -1);
}

TEST_F(ClippedStoreTest, WorkersMayCutTheirPushesDifferently) {
  MakeClipped(2, 1e6);
  Do({.worker = 0, .gradient = 1, .part = {0, 4}});
  Do({.worker = 1, .gradient = 1, .part = {0, 19}});
  Do({.worker = 0, .gradient = 1, .part = {4, 15}});
  EXPECT_EQ(Commit({.worker = 1}, 44), "w1 committed, w0 v1 [0,4), w0 v1 [4,19), w1 v1");
  EXPECT_EQ(Parameter(), -1);
}

TEST_F(ClippedStoreTest, PushWithoutSamplesCompletesTheStepButAddsNothing) {
  for (const int empty : {0, 1}) {
    MakeClipped(2, std::sqrt(11.0));
    Do({.worker = empty, .gradient = 100, .samples = 0});
    Do({.worker = 1 - empty, .gradient = 6, .samples = 2});
    EXPECT_EQ(Norm({.worker = empty, .samples = 0}), absl::StrCat("w", empty, " norm 396"));
    Commit({.worker = empty, .samples = 0}, 396);
    EXPECT_FLOAT_EQ(Parameter(), -1) << "the mean of 3 has three times the norm that is allowed";
  }
}

TEST_F(ClippedStoreTest, StepWithoutSamplesFailsTheJob) {
  MakeClipped(1, 1);
  Do({.samples = 0});
  EXPECT_THAT(Commit({.samples = 0}, 0), HasSubstr("no worker has a sample"));
  EXPECT_FALSE(actions_.fatal.ok());
}

// ---------------------------------------------------------------------------------------------- repeats

TEST_F(ClippedStoreTest, RepeatedFramesAreAnsweredAndChangeNothing) {
  MakeClipped(2, 1e6);
  Do({.worker = 0, .gradient = 2});
  EXPECT_EQ(Norm({.worker = 0}), "wait");
  EXPECT_EQ(Norm({.worker = 0}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 2}), "w0 norm 176");
  EXPECT_EQ(Norm({.worker = 0}), "w0 norm 176");
  EXPECT_EQ(Do({.worker = 0, .gradient = 2}), "wait") << "a push that waits for the commit";
  EXPECT_EQ(Commit({.worker = 0}, 200), "w0 committed, w0 v1, w1 v1");
  EXPECT_EQ(Commit({.worker = 0}, 200), "w0 committed");
  EXPECT_EQ(Do({.worker = 0, .gradient = 2}), "w0 v1");
  EXPECT_EQ(Norm({.worker = 1}), "w1 norm 176") << "a worker that lost its stream still needs the norm";
  EXPECT_EQ(Commit({.worker = 1}, 200), "w1 committed");
  EXPECT_EQ(store_->version(), 1);
  EXPECT_EQ(Parameter(), -2);
}

TEST_F(ClippedStoreTest, FasterWorkerMayPushNextStepBeforeSlowerCommits) {
  MakeClipped(2, 1e6);
  for (const int worker : {0, 1}) Do({.worker = worker, .gradient = 1});
  Commit({.worker = 0}, 44);
  EXPECT_EQ(Do({.worker = 0, .gradient = 5, .step = 1, .sequence = 2, .base = 1}), "wait");
  EXPECT_EQ(Norm({.worker = 0, .step = 1, .sequence = 2}), "wait");
  EXPECT_EQ(Norm({.worker = 1}), "w1 norm 44");
  EXPECT_EQ(Commit({.worker = 1}, 44), "w1 committed");
  EXPECT_EQ(Do({.worker = 1, .gradient = 5, .step = 1, .sequence = 2, .base = 1}), "w0 norm 1100");
  EXPECT_THAT(Norm({.worker = 1}), HasSubstr("the norm of push 1, but its last push is 2 of step 1"));
}

// --------------------------------------------------------------------------------------------- refusals

TEST_F(ClippedStoreTest, CommitBeforeAllGradientsIsRefused) {
  MakeClipped(2, 1);
  EXPECT_THAT(Commit({.worker = 0}, 1), HasSubstr("its last push is 0"));
  Do({.worker = 0, .gradient = 1});
  EXPECT_THAT(Commit({.worker = 0}, 11), AllOf(HasSubstr("server 2 refuses worker 0, step 0"),
                                               HasSubstr("not all gradients of its step have arrived")));
  Do({.worker = 1, .gradient = 1, .part = {0, 8}});
  EXPECT_THAT(Commit({.worker = 1}, 44), HasSubstr("not all gradients of its step have arrived"));
  EXPECT_EQ(store_->version(), 0);
  EXPECT_EQ(Parameter(), 0);
}

TEST_F(ClippedStoreTest, ImpossibleSumIsRefusedNamingWorkerAndStep) {
  MakeClipped(2, 1);
  for (const int worker : {0, 1}) Do({.worker = worker, .gradient = 1});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double total : {kInfinity, -kInfinity, std::nan(""), -44.0, 43.9}) {
    EXPECT_THAT(Commit({.worker = 1}, total),
                AllOf(HasSubstr("server 2 refuses worker 1, step 0"),
                      HasSubstr(std::isfinite(total) ? "own sum of 44" : "expected a finite number")));
  }
  EXPECT_EQ(Parameter(), 0);
  Commit({.worker = 1}, 44);
  EXPECT_THAT(Commit({.worker = 0}, 45),
              HasSubstr("begin with 45, but the sums of another worker for the same step begin with 44"));
  EXPECT_EQ(store_->version(), 1);
}

TEST_F(ClippedStoreTest, MalformedFramesAreRefused) {
  MakeClipped(1, 1e6);
  Do({.gradient = 1});
  const auto with = [](auto change) {
    Frame frame = ExchangeFrame(FrameKind::kCommit, {});
    change(frame);
    return frame;
  };
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.payload_bytes = 4; }), 11), HasSubstr("8 bytes of float64"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.range_count = 2; }), 11),
              HasSubstr("an exchange of 1 sums of squares"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.range_begin = 1; }), 11),
              HasSubstr("an exchange of 1 sums of squares"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.dtype = FrameDType::kFloat32; }), 11), HasSubstr("float64"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.rank = 1; }), 11), HasSubstr("the job has 1 workers"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.generation = 6; }), 11),
              HasSubstr("the worker's generation is 6"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.incarnation = 0; }), 11), HasSubstr("has taken its place"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.step = 1; }), 11), HasSubstr("its last push is 1 of step 0"));
  EXPECT_THAT(CommitFrame(with([](Frame& f) { f.payload_checksum = 1; }), 11),
              HasSubstr("DATA_LOSS: server 2 refuses worker 0, step 0: [commit"));
  Frame norm = ExchangeFrame(FrameKind::kNorm, {});
  norm.payload_bytes = 8;
  actions_ = Taken();
  EXPECT_THAT(Words(store_->OnExchange(norm, {"12345678"}, actions_)), HasSubstr("with 8 bytes"));
  EXPECT_EQ(Commit({}, 11), "w0 committed, w0 v1");
}

TEST_F(ClippedStoreTest, ServersThatDoNotClipExchangeNoNorms) {
  MakeBulk(1);
  Do({.gradient = 1});
  EXPECT_THAT(Norm({}), HasSubstr("do not clip"));
  MakeAsynchronous(1);
  EXPECT_THAT(Commit({}, 1), HasSubstr("wait for no norm"));
}

TEST_F(ClippedStoreTest, NonFiniteGradientFailsTheJobAndChangesNothing) {
  MakeClipped(2, 1);
  Do({.worker = 0, .gradient = 3e38f});
  EXPECT_EQ(Norm({.worker = 0}), "wait");
  EXPECT_THAT(Do({.worker = 1, .gradient = 3e38f}),
              AllOf(HasSubstr("server 2 refuses worker 1, step 0"), HasSubstr("is NaN or infinite")));
  EXPECT_FALSE(actions_.fatal.ok());
  EXPECT_THAT(Norm({.worker = 0}), HasSubstr("is NaN or infinite"));
  EXPECT_THAT(Commit({.worker = 0}, 1), HasSubstr("is NaN or infinite"));
  EXPECT_EQ(Parameter(), 0);
}

// The sum of squares of the largest finite gradients is finite in double precision.
TEST_F(ClippedStoreTest, GradientsNearTheFloatLimitAreClipped) {
  MakeClipped(1, std::sqrt(11.0));
  Do({.gradient = 3e38f});
  Commit({}, 11 * double{3e38f} * double{3e38f} * (1 + 1e-12));
  EXPECT_NEAR(Parameter(), -1, 1e-5);
}

// ------------------------------------------------------------------------------------------ lost workers

TEST_F(ClippedStoreTest, WorkerLostBetweenNormAndCommitLeavesTheUpdateIncomplete) {
  MakeClipped(2, 1);
  for (const int worker : {0, 1}) Do({.worker = worker, .gradient = 1});
  EXPECT_EQ(Norm({.worker = 1}), "w1 norm 44");
  EXPECT_THAT(Do({.worker = 1, .incarnation = 2}), HasSubstr("lost in the middle of step 0"));
  EXPECT_THAT(Norm({.worker = 1, .incarnation = 2}), HasSubstr("lost in the middle of step 0"));
  EXPECT_THAT(Fence(1, 2, false), HasSubstr("lost in the middle of step 0"));
  const auto read = [](int, int64_t, absl::Span<float>) { return absl::OkStatus(); };
  EXPECT_THAT(StatusText(store_->ForEachShard(read)), HasSubstr("has not completed update 1"))
      << "another server may have made the step";
  EXPECT_FALSE(store_->SetVersion(5).ok());
  EXPECT_EQ(store_->version(), 0);
  Commit({.worker = 0}, 44);
  EXPECT_TRUE(store_->ForEachShard(read).ok());
  EXPECT_EQ(Fence(1, 2, false), "wait");
}

TEST_F(ClippedStoreTest, ServerWithoutShardsRefusesNormExchanges) {
  proto::Placement placement;
  placement.set_servers(1);
  proto::ParameterServer config;
  config.mutable_bulk_synchronous();
  optimizer_.set_learning_rate(1);
  store_ = *ParameterStore::Create(StoreConfig{.server = 2,
                                               .workers = {0},
                                               .generation = 7,
                                               .slots = {},
                                               .schedule = LearningRateSchedule(optimizer_, {.job = 1000}),
                                               .parameter_server = config,
                                               .global_batch = 100,
                                               .clip_norm = 1},
                                   *ShardLayout::Create(placement, 0, 32),
                                   std::make_unique<FakeOptimizer>(std::vector<Range>()), stream_);
  EXPECT_THAT(Norm({}), HasSubstr("its last push is 0"));
  EXPECT_THAT(Commit({}, 0), HasSubstr("its last push is 0"));
  const auto read = [](int, int64_t, absl::Span<float>) { return absl::OkStatus(); };
  EXPECT_TRUE(store_->ForEachShard(read).ok());
}

TEST_F(ClippedStoreTest, StepsContinueFromARestoredVersion) {
  MakeClipped(1, 1e6);
  ASSERT_TRUE(store_->SetVersion(40).ok());
  Do({.gradient = 2, .step = 40, .base = 40});
  EXPECT_EQ(Norm({.step = 40}), "w0 norm 44");
  EXPECT_EQ(Commit({.step = 40}, 44), "w0 committed, w0 v41");
}

}  // namespace
}  // namespace tethys
