// Tests a real process of `tethys meter` on this machine.
#include "deploy/sweep/meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "deploy/sweep/meter_words.h"
#include "runtime/job/job_file.h"
#include "tests/testing/temp_directory.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A network of convolutions and batch normalisation on synthetic images.
constexpr char kJob[] = R"(
  model {
    layer { convolution { filters: 4 kernel_size: 3 } }
    layer { batch_normalisation {} }
    layer { flatten {} }
    layer { dense { units: 10 } }
  }
  data { synthetic { noise { shape: [ 8, 8, 1 ] } train_samples: 100 } classes: 10 }
  global_batch_size: 16
  epochs: 1
  optimizer { sgd { momentum: 0.9 } learning_rate: 0.1 }
  strategy { local {} }
)";

class MeterTest : public ::testing::Test {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }
  proto::JobPlan Plan() {
    const absl::StatusOr<proto::Job> job = ParseJob(kJob, "job.textproto", {});
    EXPECT_TRUE(job.ok()) << job.status();
    return PlanJob(*job).value();
  }
  absl::StatusOr<std::unique_ptr<Meter>> Start(const proto::JobPlan& plan, const std::string& name = "0") {
    return Meter::Start({.program = TETHYS_COMMAND}, plan, {.scratch = directory_.Path(""), .name = name});
  }
  const testing::TempDirectory directory_;
};

TEST_F(MeterTest, VisitHasTimesOfEachPhaseAndMemory) {
  const std::unique_ptr<Meter> meter = Start(Plan()).value();
  EXPECT_THAT(meter->facts().device(), HasSubstr("cpu"));
  EXPECT_GT(meter->facts().cores(), 0);
  EXPECT_GT(meter->facts().free_bytes(), 0);
  for (const int64_t batch : {16, 3}) {
    const absl::StatusOr<proto::StepVisit> visit = meter->Step(batch, 1);
    ASSERT_TRUE(visit.ok()) << visit.status();
    EXPECT_GE(visit->steps(), 5);
    EXPECT_GT(visit->forward(), 0);
    EXPECT_GT(visit->backward(), 0);
    EXPECT_GT(visit->update(), 0);
    EXPECT_GE(visit->step(), visit->forward());
    EXPECT_THAT(visit->ready(), SizeIs(3)) << "layers with variables";
    EXPECT_THAT(visit->quantile(), SizeIs(19));
    EXPECT_GT(visit->forecast_bytes(), 0);
    EXPECT_GT(visit->cpu_share(), 0);
  }
}

TEST_F(MeterTest, SeveralMetersMeasureAtTheSameTime) {
  const auto one = Start(Plan(), "1").value(), two = Start(Plan(), "2").value();
  const auto visits = StepTogether({one.get(), two.get()}, 8, 200);
  ASSERT_THAT(visits, SizeIs(2));
  ASSERT_TRUE(visits[0].ok() && visits[1].ok());
  EXPECT_GT(visits[0]->began() + visits[0]->seconds(), visits[1]->began());
  EXPECT_GT(visits[1]->began() + visits[1]->seconds(), visits[0]->began());
}

TEST_F(MeterTest, BatchThatTheModelRefusesIsAnErrorAndTheMeterGoesOn) {
  proto::JobPlan plan = Plan();
  plan.mutable_job()->mutable_model()->clear_layer();
  auto* model = plan.mutable_job()->mutable_model();
  model->add_layer()->mutable_flatten();
  model->add_layer()->mutable_batch_normalisation();
  model->add_layer()->mutable_dense()->set_units(10);
  const std::unique_ptr<Meter> meter = Start(plan).value();
  const absl::Status refused = meter->Step(1, 1).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_TRUE(meter->Step(2, 1).ok());
}

TEST_F(MeterTest, BatchBeyondMemoryDoesNotFitAndOthersStillDo) {
  const std::unique_ptr<Meter> meter = Start(Plan()).value();
  constexpr int64_t kBytes = 256 << 20;
  EXPECT_EQ(meter->Fits(8, kBytes).value(), true);
  EXPECT_EQ(meter->Fits(10'000'000, kBytes).value(), false);
  EXPECT_TRUE(!meter->alive() || meter->Step(8, 1).ok());
  EXPECT_FALSE(Start(Plan(), "3").value()->Step(1'000'000'000, 1).ok());
}

TEST_F(MeterTest, ModelThatCannotBeMadeIsAnError) {
  proto::JobPlan plan = Plan();
  plan.mutable_job()->mutable_model()->mutable_layer(0)->mutable_convolution()->set_kernel_size(100);
  EXPECT_FALSE(Start(plan).ok());
}

TEST(MeterWordsTest, MeaninglessQuestionsAreRefused) {
  for (const char* line : {"", "step", "step 0 1", "step 1", "step 1 -1", "step 1 1 1",
                           "step 9999999999999 1", "fits 1 x", "part ?", "job 1", "steps 1 1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseMeterQuestion(line).status())) << line;
  }
}

TEST(MeterWordsTest, PlanIsReassembledFromLinesOfBoundedLength) {
  std::string plan(10'000, '\0');
  for (size_t i = 0; i < plan.size(); ++i) plan[i] = static_cast<char>(i * 7);
  std::string again;
  for (const std::string& line : PlanQuestions(plan)) {
    EXPECT_LT(line.size(), 4096u);
    again += ParseMeterQuestion(line)->part;
  }
  EXPECT_EQ(again, plan);
}

TEST(MeterWordsTest, FailureKeepsCodeAndMessage) {
  const absl::Status failed = absl::NotFoundError("no GPU\nhere");
  EXPECT_EQ(ReadMeterAnswer(MeterFailure(failed), "ok", nullptr), absl::NotFoundError("no GPU here"));
  proto::StepVisit visit;
  for (const char* line : {"", "ok ok", "failed x y", "failed 0 y", "failed 99 y", "visit ?", "visit"}) {
    EXPECT_TRUE(absl::IsInternal(ReadMeterAnswer(line, "visit", &visit))) << line;
  }
}

}  // namespace
}  // namespace tethys
