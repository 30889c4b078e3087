#include "deploy/predict/step_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "deploy/predict/step_needs.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// A cluster of workers, followed by servers, each on a separate host and computer.
SimulatedCluster Homogeneous(int workers, int servers, double compute, double bytes, double rate) {
  SimulatedCluster cluster;
  for (int i = 0; i < workers + servers; ++i) {
    cluster.computers.emplace_back();
    cluster.hosts.push_back({.computer = i, .rate = rate});
    if (i < workers) {
      cluster.workers.push_back({.host = i, .compute = compute});
    } else {
      cluster.servers.push_back({.host = i, .bytes = bytes / servers});
    }
  }
  return cluster;
}

void SetStale(SimulatedCluster& cluster, int bound) {
  proto::StaleSynchronous& config = *cluster.parameter_server.mutable_stale_synchronous();
  config.set_bound(bound);
  config.set_gradient_scale(proto::Asynchronous::GLOBAL_MEAN);
}

// A random number between two bounds. The logarithm of the number is uniformly distributed.
double Between(double low, double high, std::mt19937& random) {
  return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(random));
}

// LockStepTime of a step in which the exchange costs nothing but `link` seconds on the busiest link.
double ClosedForm(double compute, double link) {
  const ExchangeNeeds exchange{.transport = kServers, .link = link, .link_name = "busiest"};
  StepNeeds needs;
  needs.transport = kServers;
  needs.compute = needs.backward_end = compute;
  needs.parts.push_back({.ready = compute, .exchange = {exchange}});
  proto::Calibration costs;
  proto::ExchangeCost& servers = *costs.add_exchange();
  servers.set_transport(kServers);
  servers.set_fairness(1);
  servers.set_norm(1);
  return LockStepTime(needs, costs, /*mean=*/true).seconds;
}

TEST(StepSimulationTest, SimulatedLockStepTimesLimitedByLinksAgreeWithTheClosedForm) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const int workers = std::uniform_int_distribution<int>(1, 9)(random);
    const int servers = std::uniform_int_distribution<int>(1, 4)(random);
    const double compute = Between(1e-4, 1e-1, random);
    const double bytes = Between(1e4, 1e7, random);
    const double rate = Between(1e6, 1e9, random);
    SimulatedCluster cluster = Homogeneous(workers, servers, compute, bytes, rate);
    cluster.chunks = 16;
    const absl::StatusOr<SimulationResult> result = Simulate(cluster, 3);
    ASSERT_TRUE(result.ok()) << result.status();
    // The answer to the last chunk is sent only after the last gradients have arrived, which adds the time of
    // one chunk.
    const double busiest = std::max(bytes, workers * bytes / servers);
    const double expected = ClosedForm(compute, busiest / rate * (1 + 1.0 / cluster.chunks));
    EXPECT_NEAR(result->step / expected, 1, 0.03)
        << workers << "/" << servers << " compute " << compute << " bytes " << bytes << " rate " << rate;
  }
}

TEST(StepSimulationTest, AsynchronousThroughputLiesBetweenBounds) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const int workers = std::uniform_int_distribution<int>(1, 12)(random);
    const double think = Between(1e-3, 1e-2, random);
    const double service = Between(1e-4, 1e-2, random);
    SimulatedCluster cluster = Homogeneous(workers, 1, think, 1e6, 0);
    cluster.parameter_server.mutable_asynchronous();
    cluster.loop_per_byte = service / 1e6;
    const absl::StatusOr<SimulationResult> result = Simulate(cluster, 200);
    ASSERT_TRUE(result.ok()) << result.status();
    // Mean value analysis assumes exponentially distributed times; regular times make shorter queues.
    double queue = 0, throughput = 0;
    for (int n = 1; n <= workers; ++n) {
      const double response = service * (1 + queue);
      throughput = n / (think + response);
      queue = throughput * response;
    }
    EXPECT_GE(1 / result->step, throughput * 0.99);
    EXPECT_LE(1 / result->step, std::min(workers / (think + service), 1 / service) * 1.01);
  }
}

TEST(StepSimulationTest, MeanStalenessIsTheNumberOfOtherWorkersAtAnySpeeds) {
  for (const int workers : {1, 2, 3, 6, 9}) {
    SimulatedCluster cluster = Homogeneous(workers, 2, 1e-3, 1e5, 1e8);
    cluster.parameter_server.mutable_asynchronous();
    cluster.compute_ratio = {0.5, 1, 1.5, 4};
    const absl::StatusOr<SimulationResult> result = Simulate(cluster, 2000);
    ASSERT_TRUE(result.ok()) << result.status();
    // Workers end at different times, and the last workers then compete with fewer others.
    EXPECT_NEAR(result->staleness, workers - 1, 0.04 * workers) << workers;
  }
}

TEST(StepSimulationTest, SlowWorkersAreStalest) {
  SimulatedCluster cluster = Homogeneous(3, 1, 1e-3, 1e3, 1e9);
  cluster.parameter_server.mutable_asynchronous();
  cluster.workers[2].compute = 2e-3;
  const absl::StatusOr<SimulationResult> result = Simulate(cluster, 50);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->worker_staleness[2], result->worker_staleness[0]);
}

TEST(StepSimulationTest, PullBeforeStepIsLessStale) {
  SimulatedCluster cluster = Homogeneous(4, 1, 1e-3, 1e6, 1e9);
  cluster.parameter_server.mutable_asynchronous();
  cluster.delay = 1e-3;
  const absl::StatusOr<SimulationResult> with_answer = Simulate(cluster, 200);
  cluster.pulls_before_step = true;
  const absl::StatusOr<SimulationResult> before_step = Simulate(cluster, 200);
  ASSERT_TRUE(with_answer.ok() && before_step.ok());
  EXPECT_LT(before_step->staleness, with_answer->staleness - 0.3);
}

TEST(StepSimulationTest, StalenessStaysWithinBound) {
  for (const int bound : {0, 1, 3}) {
    SimulatedCluster cluster = Homogeneous(4, 2, 1e-3, 1e5, 1e8);
    SetStale(cluster, bound);
    cluster.compute_ratio = {0.5, 1, 1, 1, 6};
    const absl::StatusOr<SimulationResult> result = Simulate(cluster, 200);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LE(result->most_staleness, 3 * (2 * bound + 1)) << bound;
    EXPECT_EQ(result->most_staleness > 0, bound > 0) << bound;
  }
}

TEST(StepSimulationTest, WithPushMeanEachPushIsAnUpdateAndAddsStaleness) {
  SimulatedCluster cluster = Homogeneous(4, 1, 1e-3, 1e5, 1e8);
  SetStale(cluster, 0);
  EXPECT_EQ(Simulate(cluster, 50)->staleness, 0);
  cluster.parameter_server.mutable_stale_synchronous()->set_gradient_scale(proto::Asynchronous::PUSH_MEAN);
  // The four pushes of a step are computed from one version, so they are 0, 1, 2 and 3 updates late.
  EXPECT_EQ(Simulate(cluster, 50)->staleness, 1.5);
}

TEST(StepSimulationTest, LargerBoundMakesWorkersWaitLess) {
  SimulatedCluster cluster = Homogeneous(4, 1, 1e-3, 1e4, 1e9);
  cluster.compute_ratio = {0.5, 1, 1, 1, 6};
  double before = 1e9;
  for (const int bound : {0, 1, 4}) {
    SetStale(cluster, bound);
    const absl::StatusOr<SimulationResult> result = Simulate(cluster, 300);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LT(result->step, before) << bound;
    before = result->step;
  }
}

TEST(StepSimulationTest, RanksOnOneComputerShareItsCapacity) {
  SimulatedCluster cluster = Homogeneous(2, 1, 1e-2, 1, 0);
  cluster.hosts[1].computer = 0;
  const absl::StatusOr<SimulationResult> result = Simulate(cluster, 10);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->step, 2e-2, 1e-4);
  cluster.computers[0].capacity = {1, 1.6};
  EXPECT_NEAR(Simulate(cluster, 10)->step, 2e-2 / 1.6, 1e-4);
}

TEST(StepSimulationTest, SeedAloneDecidesTheResult) {
  SimulatedCluster cluster = Homogeneous(3, 1, 1e-3, 1e4, 1e8);
  cluster.parameter_server.mutable_asynchronous();
  cluster.compute_ratio = {0.8, 1, 1.3};
  const double step = Simulate(cluster, 50)->step;
  EXPECT_EQ(Simulate(cluster, 50)->step, step);
  cluster.seed = 1;
  EXPECT_NE(Simulate(cluster, 50)->step, step);
}

TEST(StepSimulationTest, ClusterWithInvalidNumbersIsRefused) {
  SimulatedCluster cluster = Homogeneous(1, 1, 1e-3, 1e4, 1e8);
  EXPECT_TRUE(absl::IsInvalidArgument(Simulate(cluster, 1).status()));
  cluster.workers[0].compute = std::nan("");
  EXPECT_THAT(std::string(Simulate(cluster, 5).status().message()), HasSubstr("finite"));
  cluster.workers = {};
  EXPECT_THAT(std::string(Simulate(cluster, 5).status().message()), HasSubstr("at least one worker"));
}

}  // namespace
}  // namespace tethys
