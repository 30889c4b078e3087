// Tests clipping by global norm with bulk-synchronous servers end to end, over loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/ps/ps_cluster.h"
#include "tests/ps/tcp_proxy.h"

namespace tethys {
namespace {

// If all parameters have equal gradients with the mean m, the norm is |m| kOnesNorm.
const double kOnesNorm = std::sqrt(1033.0);

// A plan that clips mean gradients to +-`mean`.
proto::JobPlan ClippedPlan(int workers, const std::string& parameter_server, double mean,
                           const std::string& tuning = "") {
  proto::JobPlan plan = TestPlan(workers, parameter_server, tuning);
  plan.mutable_job()->mutable_optimizer()->mutable_clip()->set_global_norm(mean * kOnesNorm);
  return plan;
}

struct Shape {
  int workers;
  int servers;
  const char* message_bytes;
  const char* summation;
};

// Runs function(worker index) on one thread per worker; returns when all have ended.
template <typename Function>
void OnWorkers(int workers, Function function) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) threads.emplace_back([&, worker] { function(worker); });
  for (std::thread& thread : threads) thread.join();
}

class ClippedStepTest : public ::testing::TestWithParam<Shape> {};

TEST_P(ClippedStepTest, EveryStepIsClippedByTheNormOverAllServers) {
  const Shape& shape = GetParam();
  constexpr int kSteps = 40;
  constexpr double kLimit = 0.3;  // Lower than most mean gradients, so most steps are clipped.
  PsCluster cluster(ClippedPlan(
      shape.workers,
      absl::StrCat("servers: ", shape.servers, " bulk_synchronous { summation: ", shape.summation, " }"),
      kLimit,
      absl::StrCat("message_bytes: ", shape.message_bytes,
                   " partitioner { min_size { min_shard_bytes: 512 } }")));
  OnWorkers(shape.workers, [&](int index) {
    const auto worker = cluster.Worker(index);
    ASSERT_TRUE(worker->Prepare().ok());
    double expected = 0;
    for (int step = 0; step < kSteps; ++step) {
      double sum = 0;
      for (int other = 0; other < shape.workers; ++other) sum += (step + other) % 5;
      expected -= 0.25 * std::min(sum / 8, kLimit);
      ASSERT_TRUE(worker->Push(step, static_cast<float>((step + index) % 5)).ok());
      const auto outcome = worker->Finish();
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      ASSERT_NEAR(worker->Parameter(), expected, 1e-6 * (step + 1)) << "step " << step;
      EXPECT_EQ(outcome->version, step + 1);
      EXPECT_EQ(outcome->staleness, 0);
      // The sum of squares of the gradient sums before clipping.
      EXPECT_EQ(outcome->sum_square, shape.workers > 1 && step % 16 == 0 ? 1033 * sum * sum : 0);
    }
  });
  for (int server = 0; server < shape.servers; ++server) {
    EXPECT_EQ(cluster.server(server).TakeApplied().push_size(), shape.workers * kSteps);
    EXPECT_EQ(cluster.server(server).StalenessHistogram(), (std::map<int64_t, int64_t>{{0, kSteps}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, ClippedStepTest,
                         ::testing::Values(Shape{1, 1, "0", "ORDERED"}, Shape{1, 3, "256", "ARRIVAL"},
                                           Shape{2, 2, "256", "ORDERED"}, Shape{3, 1, "256", "ARRIVAL"},
                                           Shape{3, 2, "0", "ORDERED"}, Shape{5, 3, "1024", "ORDERED"},
                                           Shape{5, 3, "1024", "ARRIVAL"}));

TEST(ClippingOnServersTest, BytesOfNormFramesAreCounted) {
  constexpr int64_t kServers = 2;
  const auto bytes = [](const proto::JobPlan& plan) {
    PsCluster cluster(plan);
    const auto worker = cluster.Worker(0);
    EXPECT_TRUE(worker->Prepare().ok());
    EXPECT_TRUE(worker->Push(0, 1).ok());
    return worker->Finish().value();
  };
  const StepOutcome without = bytes(TestPlan(1, "servers: 2"));
  const StepOutcome with = bytes(ClippedPlan(1, "servers: 2", 1));
  EXPECT_EQ(with.bytes_out - without.bytes_out, kServers * (2 * kFrameBytes + 8));
  EXPECT_EQ(with.bytes_in - without.bytes_in, kServers * (2 * kFrameBytes + 8));
}

TEST(ClippingOnServersTest, ServerWithoutShardsGetsNoNormFrames) {
  PsCluster cluster(ClippedPlan(1, "servers: 8", 0.5));
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Step(0, 8).ok());
  EXPECT_NEAR(worker->Parameter(), -0.125, 1e-7);
  EXPECT_EQ(cluster.server(0).version(), 1);
  EXPECT_EQ(cluster.server(7).version(), 0);
}

// The number of frames of this kind and step that workers have sent through the proxy.
int FramesSent(TcpProxy& proxy, FrameKind kind, int step) {
  int count = 0;
  const std::string sent = proxy.sent();
  for (size_t at = sent.find("TTHF"); at != std::string::npos; at = sent.find("TTHF", at + 1)) {
    const absl::StatusOr<Frame> frame = Frame::Decode(sent.data() + at, sent.size() - at);
    count += frame.ok() && frame->kind == kind && frame->step == static_cast<uint64_t>(step);
  }
  return count;
}

TEST(ClippingOnServersTest, ConnectionsCutDuringAClippedStepDoNotChangeItsResult) {
  constexpr FrameKind kCutAfter[] = {FrameKind::kPush, FrameKind::kNorm, FrameKind::kCommit};
  PsCluster cluster(ClippedPlan(2, "servers: 2", 0.5, "message_bytes: 512"));
  TcpProxy proxy(cluster.server(0).address());
  const auto direct = cluster.Worker(1);
  cluster.Redirect(0, proxy.address());
  const auto through_proxy = cluster.Worker(0);
  ASSERT_TRUE(direct->Prepare().ok());
  ASSERT_TRUE(through_proxy->Prepare().ok());
  int cuts = 0;
  for (int step = 0; step < 30; ++step) {
    ASSERT_TRUE(through_proxy->Push(step, 3).ok());
    ASSERT_TRUE(direct->Push(step, 5).ok());
    std::atomic<bool> ended{false};
    absl::Status finished[2];
    std::thread other([&] { finished[1] = direct->Finish().status(); });
    std::thread one([&] {
      finished[0] = through_proxy->Finish().status();
      ended = true;
    });
    while (!ended && FramesSent(proxy, kCutAfter[step % 3], step) == 0) std::this_thread::yield();
    cuts += !ended;
    proxy.Cut();
    one.join();
    other.join();
    for (const absl::Status& status : finished) ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(through_proxy->Parameter(), direct->Parameter()) << step;
    ASSERT_NEAR(direct->Parameter(), -0.125 * (step + 1), 1e-5) << step;
  }
  EXPECT_GT(cuts, 0);
  EXPECT_EQ(cluster.server(0).TakeApplied().push_size(), 2 * 30);
}

TEST(ClippingOnServersTest, NormIsRequestedAgainAfterALostAnswer) {
  PsCluster cluster(ClippedPlan(1, "", 0.5));
  TcpProxy proxy(cluster.server(0).address());
  cluster.Redirect(0, proxy.address());
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  for (int step = 0; step < 4; ++step) {
    proxy.WithholdAnswers();
    ASSERT_TRUE(worker->Push(step, 8).ok());
    absl::Status finished;
    std::thread finish([&] { finished = worker->Finish().status(); });
    while (FramesSent(proxy, FrameKind::kNorm, step) == 0) std::this_thread::yield();
    EXPECT_EQ(cluster.server(0).version(), step) << "the worker has not got the norm";
    proxy.Cut();
    finish.join();
    ASSERT_TRUE(finished.ok()) << finished;
    EXPECT_GE(FramesSent(proxy, FrameKind::kNorm, step), 2);
    EXPECT_NEAR(worker->Parameter(), -0.125 * (step + 1), 1e-6);
  }
  EXPECT_EQ(cluster.server(0).TakeApplied().push_size(), 4);
}

// The server waits for the gradients of the other worker.
TEST(ClippingOnServersTest, ErrorOfUnansweredStepNamesServerHostAndStep) {
  ExpectUnansweredStepNamesServer(ClippedPlan(2, "", 1));
}

}  // namespace
}  // namespace tethys
