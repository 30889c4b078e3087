// Tests the contract of Strategy end to end: training with parameter servers over loopback.
#include "ps/parameter_server_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "runtime/base/socket.h"
#include "tests/ps/ps_cluster.h"
#include "tests/ps/tcp_proxy.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// Runs function(worker index) on one thread per worker; returns when all have ended.
template <typename Function>
void OnWorkers(int workers, Function function) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) threads.emplace_back([&, worker] { function(worker); });
  for (std::thread& thread : threads) thread.join();
}

TEST(BulkSynchronous, ComputingWorker_IsWaitedForBeyondTheTimeout) {
  proto::JobPlan plan = TestPlan(2, "servers: 1");
  plan.mutable_job()->mutable_timeouts()->set_step(0.05);
  PsCluster cluster(plan);
  std::atomic<int> overdue{0};
  OnWorkers(2, [&](int index) {
    ParameterServerStrategyOptions options = cluster.WorkerOptions(index);
    options.peers_compute = [&overdue] { return ++overdue > 0; };
    const auto worker = cluster.Worker(index, options);
    ASSERT_TRUE(worker->Prepare().ok());
    while (index == 1 && overdue < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const absl::Status status = worker->Step(0, 1);
    EXPECT_TRUE(status.ok()) << status;
  });
}

struct Shape3 {
  int workers;
  int servers;
  const char* message_bytes;
};

class BulkSynchronousTest : public ::testing::TestWithParam<Shape3> {};

TEST_P(BulkSynchronousTest, StepsGiveTheParametersOfOneProcessWithSummedGradients) {
  const int workers = GetParam().workers;
  const int servers = GetParam().servers;
  const char* const message_bytes = GetParam().message_bytes;
  PsCluster cluster(TestPlan(
      workers, absl::StrCat("servers: ", servers),
      absl::StrCat("message_bytes: ", message_bytes, " partitioner { min_size { min_shard_bytes: 512 } }")));
  constexpr int kSteps = 20;
  OnWorkers(workers, [&](int index) {
    const auto worker = cluster.Worker(index);
    ASSERT_TRUE(worker->Prepare().ok());
    float expected = 0;
    for (int step = 0; step < kSteps; ++step) {
      float sum = 0;
      for (int other = 0; other < workers; ++other) sum += static_cast<float>((step + other) % 5);
      expected -= 0.25f * sum / 8;
      ASSERT_TRUE(worker->Push(step, static_cast<float>((step + index) % 5)).ok());
      const auto outcome = worker->Finish();
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      ASSERT_EQ(worker->Parameter(), expected) << "step " << step;
      EXPECT_EQ(outcome->version, step + 1);
      EXPECT_EQ(outcome->staleness, 0);
      const bool measured = workers > 1 && step % 16 == 0;
      const auto own = static_cast<float>((step + index) % 5);
      EXPECT_EQ(outcome->own_square, measured ? 1033 * own * own : 0) << "step " << step;
      EXPECT_EQ(outcome->sum_square, measured ? 1033 * sum * sum : 0) << "step " << step;
      EXPECT_GT(outcome->bytes_out, 4 * 1033);
      EXPECT_GT(outcome->bytes_in, 4 * 1033);
    }
  });
  for (int server = 0; server < servers; ++server) {
    EXPECT_EQ(cluster.server(server).TakeApplied().push_size(), workers * kSteps);
    EXPECT_EQ(cluster.server(server).StalenessHistogram(), (std::map<int64_t, int64_t>{{0, kSteps}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, BulkSynchronousTest,
                         ::testing::Values(Shape3{1, 1, "0"}, Shape3{1, 3, "256"}, Shape3{2, 1, "0"},
                                           Shape3{2, 2, "256"}, Shape3{3, 1, "256"}, Shape3{3, 2, "0"},
                                           Shape3{5, 3, "1024"}));

TEST(ParameterServerStrategyTest, PrepareFetchesTheInitialValues) {
  PsCluster cluster(TestPlan(1, "servers: 2", "", InitialValue::kGlorotUniform));
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  const VariableSet variables = TestVariables(InitialValue::kGlorotUniform);
  std::vector<float> expected(variables.arena_size());
  variables.FillInitialValues(17, {0, variables.arena_size()}, expected.data());
  EXPECT_THAT(worker->parameters(), ::testing::ElementsAreArray(expected));
}

TEST(ParameterServerStrategyTest, AnswersChangeParametersOnlyInEnqueueEnd) {
  PsCluster cluster(TestPlan(1, ""));
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Push(0, 8).ok());
  while (cluster.server(0).version() == 0) std::this_thread::yield();
  EXPECT_EQ(worker->Parameter(), 0);
  ASSERT_TRUE(worker->Finish().ok());
  EXPECT_EQ(worker->Parameter(), -0.25f);
}

TEST(ParameterServerStrategyTest, WorkerWithoutSamplesAddsNothingAndGetsTheUpdate) {
  PsCluster cluster(TestPlan(2, "servers: 2"));
  const auto full = cluster.Worker(0);
  const auto empty = cluster.Worker(1);
  ASSERT_TRUE(full->Prepare().ok());
  ASSERT_TRUE(empty->Prepare().ok());
  ASSERT_TRUE(full->Push(0, 4, 4).ok());
  ASSERT_TRUE(empty->Push(0, 100, 0).ok());
  ASSERT_TRUE(empty->Finish().ok());
  ASSERT_TRUE(full->Finish().ok());
  EXPECT_EQ(empty->Parameter(), -0.25f);
  EXPECT_EQ(full->Parameter(), -0.25f);
}

TEST(ParameterServerStrategyTest, WorkersSendingInDifferentOrdersDoNotDeadlock) {
  PsCluster cluster(TestPlan(2, "", "message_bytes: 64"));
  OnWorkers(2, [&](int index) {
    const auto worker = cluster.Worker(index);
    ASSERT_TRUE(worker->Prepare(index == 1).ok());
    for (int step = 0; step < 2; ++step) ASSERT_TRUE(worker->Step(step, 8).ok());
    EXPECT_EQ(worker->Parameter(), -1);
  });
  EXPECT_EQ(cluster.server(0).version(), 2);
}

TEST(ParameterServerStrategyTest, StalenessIsReportedByStepOutcomeAndServer) {
  PsCluster cluster(TestPlan(2, "servers: 2 asynchronous {}"));
  const auto a = cluster.Worker(0);
  const auto b = cluster.Worker(1);
  ASSERT_TRUE(a->Prepare().ok());
  ASSERT_TRUE(b->Prepare().ok());
  ASSERT_TRUE(b->Step(0, 4).ok());
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(a->Step(step, 4).ok());
  ASSERT_TRUE(b->Push(1, 4).ok());
  const auto outcome = b->Finish();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->staleness, 3);
  EXPECT_EQ(outcome->version, 5);
  EXPECT_EQ(b->Parameter(), -1.25);
  EXPECT_EQ(cluster.server(1).StalenessHistogram(), (std::map<int64_t, int64_t>{{0, 4}, {3, 1}}));
}

constexpr char kPulls[] = "servers: 2 asynchronous { pull: BEFORE_STEP }";
constexpr char kSmallMessages[] = "message_bytes: 512";

TEST(ParameterServerStrategyTest, PullBeforeStepFetchesAllUpdatesSoFar) {
  PsCluster cluster(TestPlan(2, kPulls, kSmallMessages));
  const auto a = cluster.Worker(0);
  const auto b = cluster.Worker(1);
  ASSERT_TRUE(a->Prepare().ok());
  ASSERT_TRUE(b->Prepare().ok());
  ASSERT_TRUE(b->Step(0, 4).ok());
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(a->Step(step, 4).ok());
  EXPECT_EQ(b->Parameter(), 0) << "the answer to a push has no parameters";
  ASSERT_TRUE(b->Push(1, 4).ok());
  EXPECT_EQ(b->Parameter(), -1);
  const auto outcome = b->Finish();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->staleness, 0);
  EXPECT_EQ(outcome->version, 4);
  // Every parameter is sent once in each direction.
  EXPECT_GT(outcome->bytes_in, 4 * 1033);
  EXPECT_LT(outcome->bytes_in, 2 * 4 * 1033);
  EXPECT_LT(outcome->bytes_out, 2 * 4 * 1033);
}

TEST(ParameterServerStrategyTest, StalenessCountsUpdatesSinceThePullBeforeStep) {
  PsCluster cluster(TestPlan(2, kPulls, kSmallMessages));
  const auto a = cluster.Worker(0);
  const auto b = cluster.Worker(1);
  ASSERT_TRUE(a->Prepare().ok());
  ASSERT_TRUE(b->Prepare().ok());
  ASSERT_TRUE(a->Step(0, 4).ok());
  ASSERT_TRUE(b->strategy().BeginStep({.step = 0, .sample_count = 4, .global_sample_count = 8}).ok());
  for (int step = 1; step < 3; ++step) ASSERT_TRUE(a->Step(step, 4).ok());
  for (const int range : {0, 1}) ASSERT_TRUE(b->strategy().GradientReady(range, HappenedEvent()).ok());
  const auto outcome = b->Finish();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->staleness, 2);
  for (const int server : {0, 1}) {
    EXPECT_EQ(cluster.server(server).StalenessHistogram(), (std::map<int64_t, int64_t>{{0, 3}, {2, 1}}));
  }
}

TEST(ParameterServerStrategyTest, OneWorkerTrainsEquallyWithEitherPullMode) {
  PsCluster with_answer(TestPlan(1, "servers: 2 asynchronous {}"));
  PsCluster before_step(TestPlan(1, kPulls, kSmallMessages));
  const auto a = with_answer.Worker(0);
  const auto b = before_step.Worker(0);
  ASSERT_TRUE(a->Prepare().ok());
  ASSERT_TRUE(b->Prepare().ok());
  for (int step = 0; step < 20; ++step) {
    ASSERT_TRUE(a->Step(step, 0.1f * static_cast<float>(step % 7)).ok());
    ASSERT_TRUE(b->Step(step, 0.1f * static_cast<float>(step % 7)).ok());
  }
  ASSERT_TRUE(b->strategy().Refresh().ok());
  EXPECT_THAT(b->parameters(), ::testing::ElementsAreArray(a->parameters()));
}

// The gradient sum is 8 for each of 1,033 parameters, over 4 samples of a global batch of 8.
TEST(ParameterServerStrategyTest, AsynchronousPushIsClippedByTheNormOfItsMean) {
  const double ones_norm = std::sqrt(1033.0);
  for (const auto& [scale, mean] : {std::pair{"PUSH_MEAN", 2.0}, std::pair{"GLOBAL_MEAN", 1.0}}) {
    for (const double limit : {0.5 * ones_norm, 4 * ones_norm}) {
      SCOPED_TRACE(absl::StrCat(scale, ", limit ", limit));
      proto::JobPlan plan =
          TestPlan(1, absl::StrCat("servers: 2 asynchronous { gradient_scale: ", scale, " }"));
      plan.mutable_job()->mutable_optimizer()->mutable_clip()->set_global_norm(limit);
      PsCluster cluster(plan);
      const auto worker = cluster.Worker(0);
      ASSERT_TRUE(worker->Prepare().ok());
      ASSERT_TRUE(worker->Push(0, 8, 4).ok());
      ASSERT_TRUE(worker->Finish().ok());
      EXPECT_NEAR(worker->Parameter(), -0.25 * std::min(mean, limit / ones_norm), 1e-6);
    }
  }
}

TEST(ParameterServerStrategyTest, AsynchronousWorkersHaveEqualParametersAfterRefresh) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 16;
  PsCluster cluster(TestPlan(kWorkers, "servers: 2 asynchronous { gradient_scale: GLOBAL_MEAN }"));
  std::vector<std::unique_ptr<TestWorker>> workers;
  for (int index = 0; index < kWorkers; ++index) workers.push_back(cluster.Worker(index));
  OnWorkers(kWorkers, [&](int index) {
    ASSERT_TRUE(workers[index]->Prepare().ok());
    for (int step = 0; step < kSteps; ++step) ASSERT_TRUE(workers[index]->Step(step, 1).ok());
  });
  for (const auto& worker : workers) {
    ASSERT_TRUE(worker->strategy().Refresh().ok());
    EXPECT_EQ(worker->Parameter(), -0.25f * kWorkers * kSteps / 8);
  }
  for (int server = 0; server < 2; ++server) {
    EXPECT_EQ(cluster.server(server).version(), kWorkers * kSteps);
    EXPECT_EQ(cluster.server(server).TakeApplied().push_size(), kWorkers * kSteps);
  }
}

// ------------------------------------------------------------------------------------------------ errors

TEST(ParameterServerStrategyTest, ErrorOfUnansweredStepNamesServerHostAndStep) {
  ExpectUnansweredStepNamesServer(TestPlan(2, ""));
}

TEST(ParameterServerStrategyTest, NonFiniteGradientIsFatalAndChangesNothing) {
  PsCluster cluster(TestPlan(2, ""));
  const auto worker = cluster.Worker(1);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Push(0, std::nanf("")).ok());
  const absl::Status status = worker->Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("server 0 refuses worker 1, step 0"));
  EXPECT_EQ(worker->Parameter(), 0);
  EXPECT_EQ(cluster.server(0).version(), 0);
  EXPECT_EQ(cluster.fatal().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ParameterServerStrategyTest, LostServerIsNamedInTheError) {
  PsCluster cluster(TestPlan(1, "servers: 2"));
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  cluster.Kill(1);
  absl::Status status = worker->Push(0, 1);
  if (status.ok()) status = worker->Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("server 1 on host-1"));
  EXPECT_EQ(worker->strategy().Refresh(), status)
      << "the failed exchange is told from an error of the worker";
}

TEST(ParameterServerStrategyTest, StepWithUnannouncedGradientsFails) {
  PsCluster cluster(TestPlan(1, ""));
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->strategy().BeginStep({.step = 0, .sample_count = 8}).ok());
  EXPECT_EQ(worker->Finish().status().code(), absl::StatusCode::kInternal);
}

// ---------------------------------------------------------------------------------------------- interrupt

const absl::Status kReason = absl::AbortedError("the group of workers changes");

// The status of `call`, which is interrupted before it begins or while it runs.
template <typename Call>
absl::Status Interrupted(Strategy& strategy, Call call) {
  std::thread interrupts([&] { strategy.Interrupt(kReason); });
  const absl::Status status = call();
  interrupts.join();
  return status;
}

TEST(ParameterServerInterrupt, InterruptedStepThatWaitsForAStoppedWorkerReturnsTheInterruptReason) {
  for (const char* const config : {"servers: 2", "servers: 2 stale_synchronous { bound: 0 }"}) {
    FakeClock clock;
    PsCluster cluster(TestPlan(2, config));
    ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
    options.clock = &clock;
    options.peers_compute = [] { return true; };
    const auto worker = cluster.Worker(0, options);
    ASSERT_TRUE(worker->Prepare().ok());
    ASSERT_TRUE(worker->Push(0, 1).ok());
    EXPECT_EQ(Interrupted(worker->strategy(), [&] { return worker->Finish().status(); }), kReason);
    EXPECT_EQ(worker->strategy().BeginStep({.step = 1, .sample_count = 4, .global_sample_count = 8}),
              kReason);
    EXPECT_EQ(worker->strategy().GradientReady(0, HappenedEvent()), kReason);
    EXPECT_EQ(worker->strategy().Refresh(), kReason);
  }
}

// The reason of the interrupt is a deadline error. It must not be mistaken for an expired deadline of an
// answer, which the client extends while other workers compute.
TEST(ParameterServerInterrupt, InterruptWithADeadlineErrorEndsTheWait) {
  PsCluster cluster(TestPlan(2, ""));
  ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
  options.peers_compute = [] { return true; };
  const auto worker = cluster.Worker(0, options);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Push(0, 1).ok());
  worker->strategy().Interrupt(absl::DeadlineExceededError("the chief waits no longer"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker->Finish().status()));
}

// The server's listener exists, but accepts nothing.
TEST(ParameterServerInterrupt, InterruptedPrepareThatWaitsForAStoppedServerReturnsTheInterruptReason) {
  FakeClock clock;
  const FileDescriptor stopped = *ListenTcp({"127.0.0.1", 0});
  PsCluster cluster(TestPlan(1, ""));
  cluster.Redirect(0, HostPortText(*LocalAddress(stopped.get())));
  ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
  options.clock = &clock;
  const auto worker = cluster.Worker(0, options);
  EXPECT_EQ(Interrupted(worker->strategy(), [&] { return worker->Prepare(); }), kReason);
}

// The server reads nothing more, so the client's socket is full of a push that never arrives.
TEST(ParameterServerInterrupt, InterruptedClientWithAFullSocketReturnsTheInterruptReason) {
  FakeClock clock;
  PsCluster cluster(TestPlan(1, ""));
  auto proxy = std::make_unique<TcpProxy>(cluster.server(0).address());
  ParameterClientOptions options;
  options.handshake.set_job_id(cluster.plan().job_id());
  options.handshake.set_job_hash(cluster.plan().job_hash());
  options.handshake.set_model_signature(cluster.plan().model_signature());
  options.handshake.set_role(proto::WORKER);
  options.handshake.set_incarnation(1);
  options.handshake.set_generation(PsCluster::kGeneration);
  options.token = cluster.token();
  options.servers = {{"host-0", proxy->address()}};
  options.clock = &clock;
  constexpr int64_t kLong = 8 << 20;
  const std::vector<float> gradients(kLong);
  auto client = ParameterClient::Create(options);
  const MessageRange messages[] = {{.range = TestVariables().variables()[0].range}, {.range = {0, kLong}}};
  client->SetMessages(messages);
  Frame frame{
      .kind = FrameKind::kPull, .generation = PsCluster::kGeneration, .incarnation = 1, .sequence = 1};
  ASSERT_TRUE(client->Send(0, frame, nullptr).ok());
  ASSERT_EQ(client->WaitForAnswer(0, kSecond), absl::OkStatus());
  proxy->StopReading();
  frame.kind = FrameKind::kPush;
  frame.sample_count = 1;
  ASSERT_TRUE(client->Send(1, frame, gradients.data()).ok());
  std::thread interrupts([&] { client->Interrupt(kReason); });
  EXPECT_EQ(client->WaitForAnswer(1, kSecond), kReason);
  interrupts.join();
  EXPECT_EQ(client->Send(0, frame, nullptr), kReason);
  client.reset();  // Returns although the server still takes no data.
}

TEST(ParameterServerStrategyTest, WrongNumberOfServersIsRefused) {
  PsCluster cluster(TestPlan(1, "servers: 2"));
  ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
  options.servers.pop_back();
  EXPECT_EQ(CreateParameterServerStrategy(std::move(options)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tethys
