#include "workers/plan_job.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/job/job_file.h"
#include "tests/runtime/data/idx_files.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr char kDense[] =
    "layer { flatten {} } layer { dense { units: 6 } } layer { name: 'norm' batch_normalisation {} } "
    "layer { dense { units: 5 } }";
constexpr char kImages[] =
    "layer { name: 'norm' batch_normalisation {} } layer { flatten {} } layer { dense { units: 5 } }";

// Jobs on 20 images of 2 x 2 pixels.
class PlanJobTest : public ::testing::Test {
 protected:
  absl::StatusOr<proto::JobPlan> PlanOf(const std::string& layers, const std::string& rest) {
    const proto::Idx idx = testing::WriteIdxData(directory_, 20, 0).idx();
    const auto job =
        ParseJob(absl::StrCat("model { ", layers, " } data { idx { train_images: '", idx.train_images(),
                              "' train_labels: '", idx.train_labels(),
                              "' } classes: 5 } optimizer { sgd {} learning_rate: 0.1 } epochs: 1 ", rest),
                 "job.textproto", {});
    EXPECT_TRUE(job.ok()) << job.status();
    return PlanJob(*job);
  }
  void ExpectRefused(const std::string& layers, const std::string& rest) {
    const absl::Status status = PlanOf(layers, rest).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << rest << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model: layer 'norm'")) << rest;
    EXPECT_THAT(std::string(status.message()), HasSubstr("batches of at least 2 samples")) << rest;
  }

  const testing::TempDirectory directory_;
};

TEST_F(PlanJobTest, PlanHoldsTheModelsStatistics) {
  const proto::JobPlan plan = PlanOf(kDense, "batch_size_per_worker: 4").value();
  const VariableSet statistics = StatisticsOf(plan).value();
  ASSERT_EQ(statistics.variables().size(), 2u);
  EXPECT_EQ(statistics.variables()[0].name, "norm/moving_mean");
  EXPECT_EQ(statistics.variables()[0].shape, Shape{6});
  EXPECT_EQ(statistics.variables()[0].initial_value, InitialValue::kZeros);
  EXPECT_EQ(statistics.variables()[1].name, "norm/moving_variance");
  EXPECT_EQ(statistics.variables()[1].initial_value, InitialValue::kOnes);
  const VariableSet variables = VariablesOf(plan).value();
  EXPECT_EQ(variables.Find("norm/scale")->initial_value, InitialValue::kOnes);
  EXPECT_EQ(variables.Find("norm/moving_mean"), nullptr);
}

TEST_F(PlanJobTest, NormalisationOfOneValueIsRefused) {
  ExpectRefused(kDense, "batch_size_per_worker: 1");
  ExpectRefused(kDense, "workers: 3 global_batch_size: 5 strategy { mirrored {} }");
  ExpectRefused(kDense, "batch_size_per_worker: 5 strategy { local { virtual_replicas: 3 } }");
}

// An epoch of 20 samples ends with a batch of 2, of which each worker would have one sample or none.
TEST_F(PlanJobTest, ShortLastBatchOfOneValueAWorkerIsRefused) {
  const std::string rest = "workers: 3 global_batch_size: 6 strategy { mirrored {} }";
  ExpectRefused(kDense, rest);
  EXPECT_THAT(std::string(PlanOf(kDense, rest).status().message()),
              HasSubstr("an epoch of 20 samples ends with a batch of 2: write drop_remainder: true"));
  EXPECT_TRUE(PlanOf(kDense, "workers: 3 global_batch_size: 7 strategy { mirrored {} }").ok());
}

TEST_F(PlanJobTest, NormalisationOfTwoValuesIsAccepted) {
  for (const char* rest :
       {"batch_size_per_worker: 2", "workers: 3 global_batch_size: 6 strategy { mirrored {} }",
        "batch_size_per_worker: 6 strategy { local { virtual_replicas: 3 } }"}) {
    EXPECT_TRUE(PlanOf(kDense, absl::StrCat(rest, " drop_remainder: true")).ok()) << rest;
  }
  EXPECT_TRUE(PlanOf(kImages, "batch_size_per_worker: 1").ok()) << "an image has four positions";
}

TEST_F(PlanJobTest, SynchronisedNormalisationCountsTheSamplesOfAllWorkers) {
  const auto batch_of = [](int samples) {
    return absl::StrCat("workers: 3 global_batch_size: ", samples,
                        " strategy { mirrored { synchronised_batch_normalisation: true } }");
  };
  EXPECT_TRUE(PlanOf(kDense, batch_of(6)).ok()) << "the last batch has two samples";
  ExpectRefused(kDense, batch_of(19));  // The last batch has one.
  EXPECT_TRUE(PlanOf(kDense, absl::StrCat(batch_of(12), " micro_batches: 4")).ok());
  EXPECT_TRUE(PlanOf(kDense, absl::StrCat(batch_of(8), " drop_remainder: true micro_batches: 2")).ok());
  // In parts of two rows a worker: four samples, then one.
  ExpectRefused(kDense,
                "workers: 2 global_batch_size: 5 micro_batches: 2 drop_remainder: true strategy { "
                "mirrored { synchronised_batch_normalisation: true } }");
}

}  // namespace
}  // namespace tethys
