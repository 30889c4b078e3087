#include "deploy/predict/step_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deploy/predict/computers.h"
#include "deploy/predict/exchange_model.h"
#include "tests/deploy/predict/predict_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

proto::Prediction PredictionOf(const Shape784& shape, const proto::Calibration& calibration) {
  const absl::StatusOr<proto::Prediction> prediction = Predict(PlanFor(shape), OneEach(shape), calibration);
  TETHYS_CHECK(prediction.ok(), prediction.status().message());
  return *prediction;
}

TEST(NormTest, NormLiesBetweenTheLargestTimeAndTheSumOfTimes) {
  const std::vector<ResourceTime> times = {{"a", 3}, {"b", 4}};
  EXPECT_DOUBLE_EQ(Norm(times, 1), 7);
  EXPECT_DOUBLE_EQ(Norm(times, 2), 5);
  EXPECT_NEAR(Norm(times, 200), 4, 1e-9);
  EXPECT_EQ(Norm({}, 2), 0);
}

TEST(CapacityTest, CapacityIsInterpolatedAndConstantBeyondTheMeasuredRanks) {
  proto::ComputerCalibration computer;
  computer.set_cores(4);
  EXPECT_EQ(CapacityOf(computer, 3), 3);
  EXPECT_EQ(CapacityOf(computer, 9), 4);
  for (const auto& [ranks, capacity] : {std::pair{1, 1.0}, {2, 1.2}, {4, 1.6}}) {
    computer.add_capacity_ranks(ranks);
    computer.add_capacity(capacity);
  }
  EXPECT_EQ(CapacityOf(computer, 1), 1);
  EXPECT_NEAR(CapacityOf(computer, 3), 1.4, 1e-12);
  EXPECT_NEAR(CapacityOf(computer, 9), 1.6, 1e-12);
}

TEST(StragglerTest, SlowdownByTheSlowestWorkerGrowsWithTheNumberOfWorkers) {
  google::protobuf::RepeatedField<double> ratio;
  for (int i = 1; i < 20; ++i) ratio.Add(0.9 + 0.01 * i);
  EXPECT_NEAR(StragglerQuantile(ratio, 1, 0.5), 1, 0.005);
  EXPECT_GT(StragglerQuantile(ratio, 4, 0.5), StragglerQuantile(ratio, 2, 0.5));
  EXPECT_LE(StragglerQuantile(ratio, 1000, 0.5), 1.09 + 1e-9);
  EXPECT_EQ(StragglerQuantile({}, 9, 0.5), 1);
}

TEST(IntervalTest, WidensAwayFromTheCalibratedBatch) {
  const Shape784 shape{.workers = 4};
  const proto::JobPlan plan = PlanFor(shape);
  const auto half = [&](int64_t batch) {
    proto::Calibration calibration = SmallHosts(200);
    *calibration.add_exchange() = UsualCost(kRing);
    proto::Anchor& anchor = *calibration.add_anchor();
    anchor.set_strategy("mirrored");
    anchor.set_workers(4);
    anchor.set_global_batch(batch);
    const proto::Prediction prediction = *Predict(plan, OneEach(shape), calibration);
    return std::log(prediction.step().high() / prediction.step().value());
  };
  EXPECT_NEAR(half(plan.global_batch()), 0.1, 1e-9);
  EXPECT_NEAR(half(plan.global_batch() / 4), 0.2, 1e-9);
  EXPECT_NEAR(half(plan.global_batch() * 4), 0.2, 1e-9);
}

TEST(IntervalTest, RemarkSaysThatExchangeAndBatchLieOutsideTheMeasurements) {
  // Each of 32 workers has a batch of 4; the smallest measured batch is 8.
  const proto::Prediction prediction = PredictionOf({.workers = 32}, SmallHosts());
  EXPECT_THAT(
      prediction.remark(),
      AllOf(HasSubstr("may be far off (tethys calibrate JOB --set=tuning.transport=TCP calibrates a ring on "
                      "this machine, and "),
            HasSubstr("with one slot each); the batch size lies outside the measured range")));
  EXPECT_THAT(PredictionOf({.workers = 2, .servers = 1}, SmallHosts()).remark(),
              HasSubstr("(tethys calibrate JOB calibrates it where there are two slots or more)"));
}

TEST(ConformalTest, HalfWidthIsTheErrorQuantileAtTheWantedCoverage) {
  EXPECT_LT(ConformalHalfWidth({0.1, 0.2}), 0);
  EXPECT_EQ(ConformalHalfWidth({9, 1, 2, 3, 4, 5, 6, 7, 8}), 9);
  std::vector<double> errors;
  for (int i = 1; i <= 99; ++i) errors.push_back(i);
  EXPECT_EQ(ConformalHalfWidth(errors), 90);
}

TEST(StepModelTest, LocalStepTakesTheMeasuredTime) {
  const proto::Prediction prediction = PredictionOf({.workers = 1}, SmallHosts());
  EXPECT_NEAR(prediction.step().value(), 1e-3 + 128 * 2e-5, 1e-4);
  EXPECT_LT(prediction.step().low(), prediction.step().value());
  EXPECT_GT(prediction.step().high(), prediction.step().value());
  EXPECT_EQ(prediction.bound(0).resource(), "compute on host0");
}

TEST(StepModelTest, SharesOfTheBoundsOfAStepSumToOne) {
  for (const Shape784& shape : {Shape784{1, 0}, {4, 0}, {4, 2}, {6, 1}}) {
    double sum = 0;
    const proto::Prediction prediction = PredictionOf(shape, SmallHosts(100));
    for (const proto::Bound& bound : prediction.bound()) sum += bound.share();
    EXPECT_NEAR(sum, 1, 1e-9);
  }
}

TEST(StepModelTest, SlowLinkOfTheServerBoundsTheStep) {
  const Shape784 shape{.workers = 4, .servers = 1};
  const proto::Prediction prediction = PredictionOf(shape, SmallHosts(100));
  EXPECT_THAT(prediction.bound(0).resource(), HasSubstr("link of host4"));
  // Four pushes of 407,080 bytes share the server's link of 12.5 MB/s.
  EXPECT_GT(prediction.step().value(), 4 * 407080 / 12.5e6);
  EXPECT_LT(prediction.step().value(), 1.3 * 4 * 407080 / 12.5e6);
}

// Hosts 0 to 3 with a worker each, and host 4 with the server. Links have 1 Gbit/s, except the link of host
// 3, which has 100 Mbit/s.
proto::Calibration HostsWithOneSlowLink() {
  proto::Calibration calibration = SmallHosts();
  calibration.clear_link();
  for (int from = 0; from < 5; ++from) {
    for (int to = 0; to < 5; ++to) {
      if (from == to) continue;
      proto::LinkCalibration& link = *calibration.add_link();
      link.set_from(absl::StrCat("host", from));
      link.set_to(absl::StrCat("host", to));
      link.set_bytes_per_second(from == 3 || to == 3 ? 12.5e6 : 125e6);
    }
  }
  return calibration;
}

TEST(StepModelTest, SlowLinkOfAWorkerBoundsTheStepButNotTheServersLink) {
  // A push of 407,080 bytes takes 32.6 ms on host 3's link. Four pushes take 13.0 ms on the server's link,
  // and would take 130 ms if that link were as slow.
  const proto::Prediction prediction = PredictionOf({.workers = 4, .servers = 1}, HostsWithOneSlowLink());
  EXPECT_THAT(prediction.bound(0).resource(), HasSubstr("link of host3"));
  EXPECT_GT(prediction.step().value(), 407080 / 12.5e6);
  EXPECT_LT(prediction.step().value(), 1.5 * 407080 / 12.5e6);
}

TEST(StepModelTest, SlowLinkOfAWorkerDelaysNoOtherAsynchronousWorker) {
  // The server's link carries a push or an answer in 3.3 ms. This time bounds an update by any of the other
  // three workers. If the server's link were as slow as the link of host 3, an update would take 32.6 ms.
  const proto::Prediction prediction =
      PredictionOf({.workers = 4, .servers = 1, .asynchronous = true}, HostsWithOneSlowLink());
  EXPECT_LT(prediction.step().value(), 407080 / 125e6 * 2);
}

// Hosts as in SmallHosts, but `host` computes a fifth as fast: because of a CPU quota if `quota`, otherwise
// because its processor is slow.
proto::Calibration OneSlowHost(const std::string& host, bool quota) {
  proto::Calibration calibration = SmallHosts();
  proto::ComputerCalibration slow = calibration.computer(0);
  slow.clear_kind();
  slow.add_host(host);
  if (quota) slow.set_cpu_quota(0.2);
  for (proto::BatchTime& time : *slow.mutable_time()) {
    time.set_step(5 * time.step());
    time.set_forward(5 * time.forward());
    time.set_backward(5 * time.backward());
    time.set_update(5 * time.update());
  }
  *calibration.add_computer() = slow;
  return calibration;
}

TEST(StepModelTest, SlowHostDelaysTheProcessesThatItRuns) {
  const Shape784 shape{.workers = 2, .servers = 1};  // Workers on host0 and host1, the server on host2.
  const double equal = PredictionOf(shape, SmallHosts()).step().value();
  const double worker = PredictionOf(shape, OneSlowHost("host1", false)).step().value();
  const double server = PredictionOf(shape, OneSlowHost("host2", false)).step().value();
  EXPECT_GT(worker, equal + 4 * (1e-3 + 64 * 2e-5) * 0.9) << "it computes five times as long";
  EXPECT_GT(server, equal) << "it takes five times the CPU time for its messages";
  // While workers compute, the server uses no CPU time, so the server's host has quota left for the messages.
  EXPECT_LT(PredictionOf(shape, OneSlowHost("host2", true)).step().value(), server);
}

TEST(StepModelTest, FasterLinksNeverMakeAStepLonger) {
  for (const Shape784& shape : {Shape784{3, 0}, {9, 0}, {1, 1}, {4, 2}, {6, 3}}) {
    double before = 1e9;
    for (const double mbit : {10, 100, 1000, 10000}) {
      const double step = PredictionOf(shape, SmallHosts(mbit)).step().value();
      EXPECT_LE(step, before);
      before = step;
    }
    EXPECT_GE(before, 1e-3);
  }
}

TEST(StepModelTest, RingMovesNearlyTwiceTheVector) {
  const proto::Calibration calibration = SmallHosts(100, 0);
  const double bytes = 4.0 * (784 * 128 + 128 + 128 * 10 + 16);
  for (const int workers : {2, 4, 8}) {
    const double step = PredictionOf({.workers = workers}, calibration).step().value();
    const double compute = 1e-3 + 2e-5 * (128 / workers);
    const double moved = 2.0 * (workers - 1) / workers * bytes;
    EXPECT_GE(step, compute + moved / 12.5e6);
    EXPECT_LE(step, 1.02 * (compute + (moved + bytes / workers) / 12.5e6));
  }
}

TEST(StepModelTest, MeanStalenessIsTheNumberOfOtherWorkers) {
  const proto::Prediction prediction =
      PredictionOf({.workers = 6, .servers = 2, .asynchronous = true}, SmallHosts());
  EXPECT_EQ(prediction.staleness().value(), 5);
  EXPECT_EQ(prediction.staleness_bound(), 0);
  EXPECT_GT(prediction.step().value(), 0);
}

TEST(StepModelTest, StaleSynchronousStalenessHasABound) {
  const proto::Prediction prediction =
      PredictionOf({.workers = 4, .servers = 1, .stale_bound = 3}, SmallHosts());
  EXPECT_EQ(prediction.staleness_bound(), 3 * 7);
  EXPECT_LE(prediction.staleness().value(), 21);
}

TEST(StepModelTest, RunTimeIsEpochsPlusOverheads) {
  proto::Calibration calibration = SmallHosts();
  calibration.mutable_overheads()->set_join(2);
  const proto::Prediction prediction = PredictionOf({.workers = 1}, calibration);
  EXPECT_NEAR(prediction.epoch().value(), 422 * prediction.step().value(), 1e-9);
  EXPECT_NEAR(prediction.total().value(), 2 + 5 * prediction.epoch().value(), 1e-9);
}

TEST(StepModelTest, OnlyValidatedEpochsIncludeTheTimeOfValidation) {
  proto::Calibration calibration = SmallHosts();
  calibration.mutable_overheads()->set_evaluate_per_sample(1e-4);
  proto::JobPlan plan = PlanFor({.workers = 2});
  const auto predicted = [&](bool validates) {
    plan.mutable_job()->set_evaluate_each_epoch(validates);
    return *Predict(plan, OneEach({.workers = 2}), calibration);
  };
  const double steps = 422 * predicted(false).step().value();
  EXPECT_NEAR(predicted(false).epoch().value(), steps, 1e-9);
  EXPECT_NEAR(predicted(true).epoch().value(), steps + 6000 * 1e-4 / 2, 1e-9);
}

TEST(StepModelTest, PriceOfTheJobOverridesPricesOfHosts) {
  proto::JobPlan plan = PlanFor({.workers = 1});
  JobMachines machines = OneEach({.workers = 1});
  EXPECT_FALSE(Predict(plan, machines, SmallHosts())->has_cost());
  machines.price_per_hour = 2;
  const proto::Prediction by_hosts = *Predict(plan, machines, SmallHosts());
  EXPECT_NEAR(by_hosts.cost().value(), 2 * by_hosts.total().value() / 3600, 1e-9);
  plan.mutable_job()->set_price_per_hour(3);
  const proto::Prediction by_job = *Predict(plan, machines, SmallHosts());
  EXPECT_NEAR(by_job.cost().value(), 3 * by_job.total().value() / 3600, 1e-9);
}

TEST(StepModelTest, HostWithoutCalibrationIsNamed) {
  JobMachines machines = OneEach({.workers = 1});
  machines.hosts[0] = "stranger";
  machines.kinds[0] = "";
  const absl::Status status = Predict(PlanFor({.workers = 1}), machines, SmallHosts()).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stranger"));
}

TEST(StepModelTest, WithoutCalibrationOnlyBytesAndStalenessAreKnown) {
  const Shape784 shape{.workers = 3, .servers = 1, .asynchronous = true};
  const absl::StatusOr<proto::Prediction> known = PredictWithoutCalibration(PlanFor(shape), OneEach(shape));
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_FALSE(known->has_step());
  EXPECT_EQ(known->bytes_out_per_step(), 407080);
  EXPECT_EQ(known->staleness().value(), 2);
}

}  // namespace
}  // namespace tethys
