#include "deploy/predict/exchange_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/predict/computers.h"
#include "deploy/predict/step_model.h"
#include "deploy/predict/step_needs.h"
#include "tests/deploy/predict/predict_fixture.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr Shape784 Wide(int workers, int servers, int units) { return {workers, servers, false, -1, units}; }

// Runs whose step times are computed from `planted`, the costs that a fit must find.
std::vector<AnchorRun> RunsOf(const std::vector<Shape784>& shapes, const proto::Calibration& planted) {
  std::vector<AnchorRun> runs;
  for (const Shape784& shape : shapes) {
    const proto::JobPlan plan = PlanFor(shape);
    const JobMachines places = OneEach(shape);
    const JobComputers computers = *JobComputers::Create(places, planted);
    const StepNeeds needs = *NeedsOfStep(plan, *ModelOf(plan), places, computers);
    runs.push_back({plan, places, LockStepTime(needs, planted, /*mean=*/false).seconds});
  }
  return runs;
}

void Plant(const char* transport, double per_byte, double norm, double fairness,
           proto::Calibration& calibration) {
  proto::ExchangeCost& cost = *calibration.add_exchange() = UsualCost(transport);
  cost.set_cpu_per_byte(per_byte);
  cost.set_norm(norm);
  cost.set_fairness(fairness);
  cost.set_step_overhead(2e-4);
}

TEST(ExchangeFitTest, PredictsJobShapesThatTheFitHasNotSeen) {
  proto::Calibration planted = SmallHosts(200);
  Plant(kServers, 6e-9, 2.5, 1.06, planted);
  Plant(kRing, 4e-9, 3, 1, planted);
  proto::Calibration fitted = SmallHosts(200);
  const std::vector<Shape784> seen = {{1, 1}, {2, 1}, {2, 2}, Wide(1, 1, 512), {4, 1},
                                      {2, 0}, {3, 0}, {4, 0}, Wide(2, 0, 512)};
  const absl::Status status = FitExchangeCosts(RunsOf(seen, planted), fitted);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LT(fitted.log_error(), 0.01);
  ASSERT_EQ(fitted.anchor_size(), 9);
  EXPECT_EQ(fitted.anchor(1).strategy(), "ps_sync");
  for (const Shape784& shape : {Shape784{6, 2}, {6, 3}, {8, 1}, {6, 0}, {8, 0}}) {
    const absl::StatusOr<proto::Prediction> found = Predict(PlanFor(shape), OneEach(shape), fitted);
    const absl::StatusOr<proto::Prediction> truth = Predict(PlanFor(shape), OneEach(shape), planted);
    ASSERT_TRUE(found.ok() && truth.ok()) << found.status();
    EXPECT_NEAR(found->step().value() / truth->step().value(), 1, 0.04)
        << shape.workers << "/" << shape.servers;
  }
}

TEST(ExchangeFitTest, RecoversThePlantedCostPerByte) {
  // The links are so fast that processors limit the exchange.
  proto::Calibration planted = SmallHosts(100000, 1e-6);
  Plant(kRing, 8e-9, 3, 1, planted);
  proto::Calibration fitted = SmallHosts(100000, 1e-6);
  const std::vector<Shape784> seen = {{2, 0}, {4, 0}, {8, 0}, Wide(2, 0, 512), Wide(4, 0, 1024)};
  const absl::Status status = FitExchangeCosts(RunsOf(seen, planted), fitted);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_NEAR(CostOf(fitted, kRing).cpu_per_byte() / 8e-9, 1, 0.1);
}

TEST(ExchangeFitTest, RefusesRunsWithoutAClosedForm) {
  proto::Calibration calibration = SmallHosts();
  EXPECT_TRUE(absl::IsInvalidArgument(FitExchangeCosts({}, calibration)));
  const Shape784 shape{.workers = 2, .servers = 1, .asynchronous = true};
  const absl::Status status = FitExchangeCosts({{PlanFor(shape), OneEach(shape), 1e-3}}, calibration);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lock step"));
  const absl::Status zero = FitExchangeCosts({{PlanFor({}), OneEach({}), 0}}, calibration);
  EXPECT_THAT(std::string(zero.message()), HasSubstr("above 0"));
}

}  // namespace
}  // namespace tethys
