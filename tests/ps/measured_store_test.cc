// Tests the parameter store with an optimizer that has a trust ratio, in bulk-synchronous training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/ps/parameter_store_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The store has two shards, of 8 and 3 elements. For each shard, FakeOptimizer measures the sum of squares of
// the parameters and that of the mean gradients, and multiplies a step by the root of the second sum.
class MeasuredStoreTest : public ParameterStoreTest {
 protected:
  void MakeMeasured(int workers, double limit = 0) {
    clip_norm_ = limit;
    measures_ = true;
    MakeBulk(workers);
  }

  // Gives the store a frame that exchanges `values` sums of squares, with the payload `sent`. Returns the
  // actions of the store as text.
  std::string Exchange(FrameKind kind, const Push& push, uint64_t values, const std::vector<double>& sent) {
    Frame frame = ToFrame(push);
    frame.kind = kind;
    frame.dtype = FrameDType::kFloat64;
    frame.range_begin = 0;
    frame.range_count = values;
    frame.payload_bytes = sent.size() * sizeof(double);
    const absl::string_view payload(reinterpret_cast<const char*>(sent.data()), frame.payload_bytes);
    const size_t cut = payload.size() / 3;  // In two pieces, because a message may arrive in pieces.
    const std::vector<absl::string_view> pieces = {payload.substr(0, cut), payload.substr(cut)};
    actions_ = Taken();
    return Words(store_->OnExchange(frame, pieces, actions_));
  }
  std::string Norm(const Push& push) { return Exchange(FrameKind::kNorm, push, 1, {}); }
  std::string Measure(const Push& push, const std::vector<double>& total_norm = {}) {
    return Exchange(FrameKind::kMeasure, push, 4, total_norm);
  }
  std::string Commit(const Push& push, const std::vector<double>& totals) {
    return Exchange(FrameKind::kCommit, push, 4, totals);
  }
  // The largest value of any parameter or slot.
  float Largest() {
    float largest = -1e9f;
    const auto read = [&](int, int64_t, absl::Span<float> values) {
      largest = std::max(largest, *std::max_element(values.begin(), values.end()));
      return absl::OkStatus();
    };
    EXPECT_TRUE(store_->ForEachShard(read).ok());
    return largest;
  }
};

TEST_F(MeasuredStoreTest, UpdateUsesTheSumsOfSquaresOverAllServers) {
  MakeMeasured(2);
  EXPECT_EQ(Do({.worker = 0, .gradient = 1, .samples = 2}), "wait");
  EXPECT_EQ(Measure({.worker = 0}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 3, .samples = 2}), "w0 measured 0 8 0 3");
  EXPECT_EQ(Measure({.worker = 1}), "w1 measured 0 8 0 3");
  EXPECT_EQ(Parameter(), 0);
  EXPECT_EQ(Commit({.worker = 1}, {5, 16, 5, 16}), "w1 committed, w0 v1, w1 v1");
  EXPECT_EQ(Parameter(), -4);
  EXPECT_EQ(Commit({.worker = 0}, {5, 16, 5, 16}), "w0 committed");
  EXPECT_EQ(store_->version(), 1);
  EXPECT_EQ(Parameter(), -4);

  for (const int worker : {0, 1}) {
    Do({.worker = worker, .gradient = 1, .samples = 2, .step = 1, .sequence = 2, .base = 1});
  }
  EXPECT_EQ(Measure({.worker = 0, .step = 1, .sequence = 2}), "w0 measured 128 2 48 0.75");
  Commit({.worker = 0, .step = 1, .sequence = 2}, {128, 4, 48, 4});
  EXPECT_EQ(Parameter(), -5);
}

TEST_F(MeasuredStoreTest, GradientsAreClippedBeforeTheyAreMeasured) {
  MakeMeasured(2, 2.5);
  for (const int worker : {0, 1}) Do({.worker = worker, .gradient = 2, .samples = 2});
  EXPECT_EQ(Norm({.worker = 0}), "w0 norm 176");
  // The mean gradients have a norm of 5 over all servers, so clipping to 2.5 halves them.
  EXPECT_EQ(Measure({.worker = 0}, {400}), "w0 measured 0 2 0 0.75");
  EXPECT_THAT(
      Measure({.worker = 1}, {500}),
      AllOf(HasSubstr("server 2 refuses worker 1, step 0"),
            HasSubstr("begin with 500, but the sums of another worker for the same step begin with 400")));
  EXPECT_THAT(Measure({.worker = 1}, {175}), HasSubstr("begin with 175"));
  EXPECT_EQ(Measure({.worker = 1}, {400}), "w1 measured 0 2 0 0.75");
  EXPECT_EQ(Commit({.worker = 1}, {0, 4, 0, 4}), "w1 committed, w0 v1, w1 v1");
  EXPECT_EQ(Parameter(), -1);
  EXPECT_EQ(Commit({.worker = 0}, {0, 4, 0, 4}), "w0 committed");
}

TEST_F(MeasuredStoreTest, RepeatedFramesAreAnsweredButMeasureOnlyOnce) {
  optimizer_.mutable_sgd()->set_momentum(0.9);  // One slot: a measurement adds 100 to it, an update adds 1.
  MakeMeasured(2);
  Do({.worker = 0, .gradient = 2});
  EXPECT_EQ(Measure({.worker = 0}), "wait");
  EXPECT_EQ(Measure({.worker = 0}), "wait");
  EXPECT_EQ(Do({.worker = 1, .gradient = 2}), "w0 measured 0 32 0 12");
  EXPECT_EQ(Measure({.worker = 0}), "w0 measured 0 32 0 12");
  EXPECT_EQ(Commit({.worker = 0}, {0, 36, 0, 36}), "w0 committed, w0 v1, w1 v1");
  EXPECT_EQ(Commit({.worker = 0}, {0, 36, 0, 36}), "w0 committed");
  EXPECT_EQ(Measure({.worker = 1}), "w1 measured 0 32 0 12") << "a worker that lost its stream";
  EXPECT_EQ(Commit({.worker = 1}, {0, 36, 0, 36}), "w1 committed");
  EXPECT_EQ(Parameter(), -12);
  EXPECT_EQ(Largest(), 101);
}

TEST_F(MeasuredStoreTest, NormExchangeOutOfOrderIsRefused) {
  MakeMeasured(1, 1);
  EXPECT_THAT(Measure({}, {1}), HasSubstr("its last push is 0"));
  Do({.gradient = 1, .part = {0, 8}});
  EXPECT_THAT(Measure({}, {11}), HasSubstr("not all gradients of its step have arrived"));
  Do({.gradient = 1, .part = {16, 3}});
  EXPECT_THAT(Commit({}, {0, 8, 0, 3}), HasSubstr("have not been measured"));
  EXPECT_EQ(Parameter(), 0);
}

TEST_F(MeasuredStoreTest, ImpossibleSumsOfSquaresAreRefused) {
  MakeMeasured(2);
  for (const int worker : {0, 1}) Do({.worker = worker, .gradient = 1});
  EXPECT_EQ(Measure({.worker = 0}), "w0 measured 0 8 0 3");
  EXPECT_THAT(Commit({.worker = 0}, {0, 8, 0, 2.9}), HasSubstr("a sum of squares of 2.9 over all servers"));
  EXPECT_THAT(Commit({.worker = 0}, {0, 8}), HasSubstr("expected an exchange of 4 sums of squares"));
  EXPECT_THAT(Exchange(FrameKind::kCommit, {.worker = 0}, 1, {8}), HasSubstr("the message has 1 sums"));
  EXPECT_THAT(Measure({.worker = 1}, {8}), HasSubstr("with 0 bytes"));
  EXPECT_EQ(Parameter(), 0);
  Commit({.worker = 0}, {0, 9, 0, 9});
  EXPECT_THAT(Commit({.worker = 1}, {0, 9, 0, 10}), HasSubstr("the sums of another worker"));
}

TEST_F(MeasuredStoreTest, NormFramesAreRefusedByServersThatNeedNoNorms) {
  MakeBulk(1);
  Do({.gradient = 1});
  EXPECT_THAT(Measure({}), HasSubstr("need none"));
  MakeMeasured(1);
  EXPECT_THAT(Norm({}), HasSubstr("do not clip"));
}

TEST_F(MeasuredStoreTest, WorkerLostBetweenMeasureAndCommitLeavesTheUpdateIncomplete) {
  MakeMeasured(2);
  for (const int worker : {0, 1}) Do({.worker = worker, .gradient = 1});
  EXPECT_EQ(Measure({.worker = 1}), "w1 measured 0 8 0 3");
  EXPECT_THAT(Fence(1, 2, false), HasSubstr("lost in the middle of step 0"));
  const auto read = [](int, int64_t, absl::Span<float>) { return absl::OkStatus(); };
  EXPECT_THAT(StatusText(store_->ForEachShard(read)), HasSubstr("has not completed update 1"))
      << "slots may have changed";
}

}  // namespace
}  // namespace tethys
