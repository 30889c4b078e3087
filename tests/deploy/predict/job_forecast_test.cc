#include "deploy/predict/job_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/predict/step_model.h"
#include "tests/deploy/predict/predict_fixture.h"

namespace tethys {
namespace {

// The traffic of groups of workers, in twelfths of the gradients. "2x: out 8 in 20 tcp 0" means two workers,
// each of which sends 8/12 and receives 20/12, but sends nothing by TCP; "first" marks workers that are the
// first workers of their hosts.
std::string TrafficText(const std::vector<int>& worker_hosts) {
  const proto::JobPlan plan = PlanFor({.workers = static_cast<int>(worker_hosts.size())});
  const Model model = *ModelOf(plan);
  const int64_t bytes = GradientBytes(plan, model);
  const auto twelfths = [bytes](int64_t part) { return absl::StrCat((12 * part + bytes / 2) / bytes); };
  std::string text;
  for (const WorkerTraffic& traffic : MirroredTraffic(plan, model, worker_hosts)) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", traffic.workers, "x", traffic.leads ? " first" : "",
                    ": out ", twelfths(traffic.out), " in ", twelfths(traffic.in), " tcp ",
                    twelfths(traffic.out_by_tcp));
  }
  return text;
}

TEST(JobForecastTest, OneWorkerHasNoTraffic) { EXPECT_EQ(TrafficText({0}), ""); }

TEST(JobForecastTest, WorkersOnOneHostShareMemory) {
  EXPECT_EQ(TrafficText({0, 0, 0}), "3x: out 8 in 8 tcp 0");
}

TEST(JobForecastTest, WorkersOnDifferentHostsFormARing) {
  EXPECT_EQ(TrafficText({0, 1, 2}), "3x: out 16 in 16 tcp 16");
}

TEST(JobForecastTest, FirstWorkersOfHostsFormTheRing) {
  EXPECT_EQ(TrafficText({0, 0, 0, 1}),
            "1x first: out 12 in 12 tcp 12; 1x first: out 20 in 20 tcp 12; 2x: out 8 in 20 tcp 0");
}

TEST(JobForecastTest, PredictedBytesAreTheMeanOfAllWorkers) {
  proto::JobPlan plan = PlanFor({.workers = 4});
  JobMachines machines = OneEach({.workers = 4});
  machines.workers = {0, 0, 0, 1};
  const int64_t bytes = GradientBytes(plan, *ModelOf(plan));
  const absl::StatusOr<proto::Prediction> known = PredictWithoutCalibration(plan, machines);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_NEAR(known->bytes_out_per_step(), (12 + 20 + 2 * 8) / 12.0 / 4 * bytes, 2);
  EXPECT_NEAR(known->bytes_in_per_step(), (12 + 20 + 2 * 20) / 12.0 / 4 * bytes, 2);
}

}  // namespace
}  // namespace tethys
