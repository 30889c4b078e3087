#include "deploy/calibrate/anchors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/deploy/predict/predict_fixture.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AnchorShapesTest, EachDistributedStrategyHasAnchorRunsOnFewAndOnAllSlots) {
  const std::vector<AnchorShape> shapes = AnchorShapes(8, 128);
  EXPECT_EQ(shapes.front(), (AnchorShape{StrategyFamily::kLocal, 1, 0}));
  EXPECT_THAT(shapes, Contains(AnchorShape{StrategyFamily::kLocal, 1, 0, 16}));
  for (const AnchorShape& shape : {AnchorShape{StrategyFamily::kMirrored, 2, 0},
                                   {StrategyFamily::kMirrored, 8, 0},
                                   {StrategyFamily::kMirrored, 4, 0},
                                   {StrategyFamily::kBulkSynchronous, 1, 1},
                                   {StrategyFamily::kBulkSynchronous, 2, 1},
                                   {StrategyFamily::kBulkSynchronous, 2, 2},
                                   {StrategyFamily::kBulkSynchronous, 6, 2},
                                   {StrategyFamily::kBulkSynchronous, 3, 1}}) {
    EXPECT_THAT(shapes, Contains(shape)) << AnchorText(shape);
  }
  for (const AnchorShape& shape : shapes) EXPECT_LE(shape.workers + shape.servers, 8) << AnchorText(shape);
}

TEST(AnchorShapesTest, WithOneSlotAllAnchorRunsAreLocal) {
  for (const AnchorShape& shape : AnchorShapes(1, 128)) EXPECT_EQ(shape.strategy, StrategyFamily::kLocal);
}

TEST(BriefJobTest, TrainsTheModelOnSamplesThatAreKeptInMemory) {
  proto::JobPlan plan = PlanFor({.workers = 2});
  plan.mutable_job()->mutable_checkpoint()->set_keep_best(true);
  plan.mutable_job()->set_global_batch_size(128);
  const absl::StatusOr<proto::Job> job = BriefJob(plan, 100);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->max_steps(), 100);
  EXPECT_EQ(job->epochs(), 0);
  EXPECT_FALSE(job->checkpoint().keep_best());
  EXPECT_THAT(job->data().synthetic().noise().shape(), ElementsAre(28, 28));
  EXPECT_EQ(job->data().synthetic().train_samples() - job->data().validation_samples(), 25 * 128);
  EXPECT_EQ(job->data().cache(), proto::Data::MEMORY);
  EXPECT_EQ(job->model().layer_size(), plan.job().model().layer_size());
}

std::string StepsCsv(int steps, int workers, double skew) {
  std::string text = "rank,step,samples,begin_ns,total_ns\n";
  for (int step = 1; step <= steps; ++step) {
    for (int rank = 0; rank < workers; ++rank) {
      // The first steps take ten times as long as the later steps.
      const double begin = step <= 2 ? step * 10e6 : 20e6 + step * 1e6;
      absl::StrAppend(&text, rank, ",", step, ",64,", static_cast<int64_t>(begin), ",",
                      static_cast<int64_t>((step <= 2 ? 10e6 : 1e6) * (rank == 0 ? 1 : skew)), "\n");
    }
  }
  return text;
}

TEST(BriefTimesTest, FirstStepsOfABriefRunAreLeftOutOfItsTimes) {
  const absl::StatusOr<BriefTimes> times = TimesOf(StepsCsv(200, 2, 0.5), 2, /*lock_step=*/true);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_NEAR(times->step, 0.75e-3, 1e-6);  // The mean over both workers.
  EXPECT_NEAR(times->mean_step, 0.75e-3, 1e-6);
  EXPECT_NEAR(times->samples_per_second, 128e3, 2e3);
  EXPECT_EQ(times->steps, 400);
  EXPECT_EQ(TimesOf(StepsCsv(200, 2, 0.5), 2, /*lock_step=*/false)->step, 0);
}

TEST(BriefTimesTest, RefusesTooFewSteps) {
  const absl::StatusOr<BriefTimes> times = TimesOf(StepsCsv(4, 1, 1), 1, true);
  EXPECT_THAT(std::string(times.status().message()), HasSubstr("--seconds"));
}

TEST(OverheadsTest, OverheadsAreComputedFromTheRunsSummaries) {
  std::vector<proto::RunSummary> runs(3);
  for (int i = 0; i < 3; ++i) {
    runs[i].set_workers(i + 1);
    runs[i].set_epochs(4);
    proto::Timing& timing = *runs[i].mutable_timing();
    timing.set_startup_seconds(0.5 + 0.1 * (i + 1));
    timing.set_plan_seconds(0.2);
    timing.set_training_seconds(2);
    timing.set_tmi_avg_seconds(1e-3);
    timing.set_first_iteration_seconds(0.031);
    timing.set_barrier_seconds(0.04);
    timing.set_validation_seconds(0.4);
    timing.set_checkpoint_seconds(0.06);
    runs[i].set_checkpoints_written(2);
    timing.set_total_seconds(timing.startup_seconds() + 2.56);
    runs[i].mutable_validation()->set_samples(100 * (i + 1));
  }
  const proto::Overheads overheads = OverheadsOf(runs);
  EXPECT_NEAR(overheads.join_per_process(), 0.1, 1e-9);
  EXPECT_NEAR(overheads.join() + overheads.plan(), 0.5, 1e-9);
  EXPECT_NEAR(overheads.first_cpu(), 0.03, 1e-9);
  EXPECT_NEAR(overheads.barrier(), 0.01, 1e-9);
  EXPECT_NEAR(overheads.evaluate_per_sample(), 1e-3, 1e-9);
  EXPECT_NEAR(overheads.checkpoint(), 0.03, 1e-9);
  EXPECT_NEAR(overheads.stop(), 0.1, 1e-9);
}

}  // namespace
}  // namespace tethys
